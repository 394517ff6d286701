"""Analysis engine: `python -m muzero.engine agent=AGENT`, JSON lines in and out; `--help` explains the keys."""

import sys

from muzero.arena.engine import main

if __name__ == "__main__":
    sys.exit(main())
