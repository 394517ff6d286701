"""Head-to-head command: `python -m muzero.evaluate a=AGENT b=AGENT`; `--help` explains the keys."""

import sys

from muzero.matches.command import main

if __name__ == "__main__":
    sys.exit(main())
