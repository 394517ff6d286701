"""Training command: reads the configuration, opens the run directory and trains."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import torch
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from muzero.agents.agent_spec import AgentSpec, resolve
from muzero.config import PAST_SELF, Config, cores
from muzero.config.fields import require_path
from muzero.runs import checkpoint, metrics
from muzero.runs.files import CheckpointError, WriteError
from muzero.runs.processes import WorkerDied, pick_device
from muzero.runs.provenance import recorded
from muzero.runs.run_directory import Interruption, RunLocked, config_hash, open_run
from muzero.training.peers import join_peers, own_device, rank_and_size
from muzero.training.preflight import preflight
from muzero.training.run_state import make_learner
from muzero.training.trainer import Trainer
from muzero.training.warm_start import pinned_init

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
EXIT_INTERRUPTED = 130  # exit code of a process that Ctrl-C has ended without saving
EXIT_LOST = 1  # exit code of a process whose rank 0 has gone
# Settings that a resumed run may change: they do not change what is learned, or only when a run ends.
CHANGEABLE = (
    "logging",
    "runtime",
    "run_dir",
    "train.iterations",
    "train.minutes",
    "train.checkpoint_every",
    "search.backend",
    "evaluation.first",
)

ConfigStore.instance().store(name="schema", node=Config)  # first entry of the defaults list of conf/config.yaml


def read_config(raw: DictConfig) -> Config:
    """Configuration from Hydra's composed one, with its numbers checked (`preflight` checks the rest)."""
    try:  # Hydra lets +unknown.key=1 pass
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.to_container(raw)))
    except OmegaConfBaseException as error:
        raise ValueError(error) from None
    assert isinstance(config, Config)
    config.check()
    return config


def with_pinned_agents(config: Config) -> Config:
    """Configuration in which the names of agents are complete: a run's newest checkpoint is named by its iteration."""

    def pin(key: str, name: str) -> str:
        try:
            return name if name == PAST_SELF else str(resolve(AgentSpec.parse(name)))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None

    also = [pin("evaluation.also", name) for name in config.evaluation.also]
    exploit = pin("exploit", config.exploit) if config.exploit else None
    train = replace(config.train, init=pinned_init(config.train.init))
    return replace(config, exploit=exploit, evaluation=replace(config.evaluation, also=also), train=train)


def run_directory(config: Config) -> Path:
    """Path of the run directory: the one that the user named, or one named by game, variant and hash."""
    if config.run_dir:
        require_path("run_dir", config.run_dir)
        return Path(config.run_dir)
    name = f"{config.game.name}-{config.variant}-{config_hash(asdict(config), CHANGEABLE)}"
    return Path("runs") / name


@contextmanager
def prepared(config: Config) -> Iterator[Trainer]:
    """Trainer in its run directory, ready to go on. Bad input is refused here, before any work."""
    preflight(config)
    with open_run(run_directory(config), asdict(config), CHANGEABLE) as run:
        saved = bool(checkpoint.checkpoints(run.path))
        again = " from the start: nothing had been saved" if run.resumed and not saved else ""
        print(f"{'resuming' if saved else 'training'} {config.variant} in {run.path}{again}", flush=True)
        try:
            trainer = Trainer(config, run)
        except BaseException:
            if not run.resumed:
                run.forget()
            raise
        yield trainer


def objective(raw: DictConfig) -> float | None:
    """Last value of `logging.objective` in the metrics of a run; None if it has none.

    Args:
      raw: configuration of a run that has been trained.
    """
    config = with_pinned_agents(read_config(raw))
    path = run_directory(config)
    records = metrics.read(path) if (path / metrics.METRICS).is_file() else []
    found = [metrics.flatten(record).get(config.logging.objective.replace(".", "/")) for record in records]
    return next((value for value in reversed(found) if value is not None), None)


def follow(config: Config) -> int:
    """Compute gradients for rank 0 of a run over several processes (`muzero.training.peers`) until it ends.

    Ends the process; returns an exit code only if rank 0 is lost.
    """
    preflight(config)
    threads = max(1, (config.runtime.threads or cores()) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    torch.set_num_threads(threads)
    device = own_device(pick_device(config.runtime.device))
    peers = join_peers(config.learner.batch, device)
    assert peers is not None
    learner = make_learner(config, device, threads, peers)
    with Interruption():  # a signal to all processes is for rank 0, which saves and stops the others
        try:
            learner.share_state()
            learner.follow()
        except ConnectionError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_LOST
    peers.end_process()


def train(raw: DictConfig) -> int:
    """Train as Hydra's configuration says; returns the exit code."""
    with ExitStack() as stack:
        try:
            if rank_and_size()[0]:
                return follow(with_pinned_agents(read_config(raw)))
            trainer = stack.enter_context(prepared(with_pinned_agents(read_config(raw))))
            closing = stack.enter_context(recorded(trainer.run.path))
        except (ValueError, RunLocked) as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_BAD_INPUT
        except WriteError as error:
            print(f"error: {error}; nothing has been trained", file=sys.stderr)
            return EXIT_FAILED
        except KeyboardInterrupt:
            print("\nstopped before the first iteration", file=sys.stderr)
            return EXIT_INTERRUPTED
        closing["code"] = EXIT_FAILED  # unless `train` returns another
        try:
            closing["code"] = trainer.train()
            closing["iteration"] = trainer.state.iteration
            return int(closing["code"])
        except (WriteError, WorkerDied, CheckpointError) as error:
            kept = trainer.state.saved or "none, there was no checkpoint yet"
            print(f"error: {error}; last good checkpoint: {kept}", file=sys.stderr)
            return EXIT_BAD_INPUT if isinstance(error, CheckpointError) else EXIT_FAILED
        except KeyboardInterrupt:
            kept = trainer.state.saved or "none, there was no checkpoint yet"
            print(f"\nstopped without saving; last checkpoint: {kept}; run the same command to go on", file=sys.stderr)
            return EXIT_INTERRUPTED
