"""Study command: `python -m experiments.study`; `--help` explains it."""

import sys

from experiments.study.command import main

sys.exit(main())
