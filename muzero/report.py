"""Reports of training runs; `--help` of each command explains its options.

python -m muzero.report RUN...             curves and tables
python -m muzero.report upload RUN...      one clean run in wandb or TensorBoard, rebuilt from the run's files
python -m muzero.report dashboard          a workspace in wandb with the charts that tell how a run goes
"""

import sys

from muzero.runs import dashboard, report, upload

COMMANDS = {"upload": upload.main, "dashboard": dashboard.main}


def main() -> int:
    """Entry point of `python -m muzero.report`; returns the exit code."""
    arguments = sys.argv[1:]
    chosen = COMMANDS.get(arguments[0]) if arguments else None
    return chosen(arguments[1:]) if chosen else report.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
