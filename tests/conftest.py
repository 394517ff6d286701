"""One thread per test process: the networks in tests are tiny, and waiting for a second core costs more than it gives."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
