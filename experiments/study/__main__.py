"""Study command: `python -m experiments.study`; without arguments it explains itself."""

import sys

from experiments.study.command import main

sys.exit(main())
