"""One thread per test process: the networks in tests are tiny, and a second core is worth less than the wait for it."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
