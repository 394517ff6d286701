"""Learning-curve command: `python -m muzero.report RUN...` draws the curves of runs; `--help` explains the options."""

import sys

from muzero.runs.report import main

if __name__ == "__main__":
    sys.exit(main())
