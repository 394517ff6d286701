"""Entry point of training: `python -m muzero.train`."""

import argparse

STATUS = """\
Training is not implemented yet.
What works today: the Skyjo environment and its bots, in Python as env.make("skyjo") and at the terminal with
`python -m env.play skyjo`; networks and search (`python -m muzero.networks` prints their sizes);
experiments/skyjo_thresholds.py, experiments/simulator_vs_bots.py; experiments/bench_*.py."""


def main() -> None:
    """Say what exists so far."""
    argparse.ArgumentParser(prog="python -m muzero.train", description=STATUS).parse_args()
    print(STATUS)


if __name__ == "__main__":
    main()
