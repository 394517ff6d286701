"""Training command.

    python -m muzero.train variant=belief
    python -m muzero.train variant=belief preset=paper runtime=ray runtime.workers=8
    python -m muzero.train variant=ppo                              # policy gradients, without search or a model
    python -m muzero.train variant=ppo +exploit=checkpoint:RUN      # a best response to one agent
    python -m muzero.train --multirun variant=baseline,belief seed=0,1,2
    torchrun --nproc_per_node=2 -m muzero.train variant=belief      # a learner on two GPUs (muzero/training/peers.py)
    python -m muzero.train --multirun hydra/sweeper=random 'learner.lr=tag(log,interval(1e-4,1e-2))'
    python -m muzero.train --help                                    # every key with its meaning

Running the same command again resumes. SIGTERM, SIGUSR1 and Ctrl-C save and exit with code 75, which asks a scheduler
to start the command again; a second Ctrl-C stops at once, without saving, with code 130. The function returns a figure
of the run (`logging.objective`) for the sweepers of Hydra.
"""

from __future__ import annotations

import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from muzero.runs.memory import settle_memory
from muzero.training.command import CHANGEABLE, EXIT_BAD_INPUT, objective, train
from muzero.training.hydra_arguments import hydra_arguments
from muzero.training.override_check import check_overrides
from muzero.training.peers import end_process, rank_and_size
from muzero.training.trainer import EXIT_DIVERGED


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")
def run(raw: DictConfig) -> float | None:
    """Train as a composed configuration says; returns the objective of the run, None if it has none."""
    settle_memory()
    if HydraConfig.get().mode == RunMode.MULTIRUN and not raw.run_dir:
        raw.run_dir = HydraConfig.get().runtime.output_dir
    code = train(raw)  # called in a function, so that no exception raised here keeps the trainer alive
    if code == EXIT_DIVERGED and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise RuntimeError("the loss diverged")  # the other runs of a sweep go on
    if code != EXIT_BAD_INPUT and rank_and_size()[1] > 1:
        end_process(code)
    if code:
        sys.exit(code)
    return objective(raw)


def main() -> None:
    """Entry point of `python -m muzero.train`."""
    sys.argv[1:] = hydra_arguments(sys.argv[1:], CHANGEABLE)
    try:
        check_overrides(sys.argv[1:])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    run()


if __name__ == "__main__":
    main()
