"""Round-robin command: `python -m muzero.ladder agents=[...] out=DIR`; `--help` explains the keys."""

import sys

from muzero.matches.ladder import main

if __name__ == "__main__":
    sys.exit(main())
