"""Play in a terminal: `python -m muzero.play game=skyjo you=0 opponents=AGENT`; `--help` explains the keys."""

import sys
from contextlib import suppress

from muzero.arena.terminal import main

if __name__ == "__main__":
    with suppress(ImportError):
        import readline  # noqa: F401  # input() edits lines with readline
    sys.exit(main())
