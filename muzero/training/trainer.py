"""Training: self-play, replay, learner, evaluation, checkpoints, in one loop.

    python -m muzero.train +variant=belief
    python -m muzero.train +variant=belief preset=paper runtime=ray runtime.workers=8
    python -m muzero.train --multirun +variant=baseline,belief seed=0,1,2
    python -m muzero.train --help

Running the same command again resumes. SIGTERM, SIGUSR1 and Ctrl-C save and exit with code 75, which asks a scheduler
to start the command again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from muzero.agents.agents import Searcher
from muzero.config import Config, SearchConfig, cores, require, scheduled
from muzero.data.augmentation import SlotPermutation
from muzero.data.replay_buffer import ReplayBuffer
from muzero.matches.bot_evaluation import evaluate_bots
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint, metrics
from muzero.runs.display import Display
from muzero.runs.memory import give_back_memory, resident_megabytes
from muzero.runs.run_directory import EXIT_REQUEUE, Interruption, RunDirectory, RunLocked, config_hash, open_run
from muzero.runs.sinks import Wandb
from muzero.search.planner import Planner, by_seat, how_to_run
from muzero.selfplay.opponents import Curriculum, OpponentMix, Pool
from muzero.selfplay.runtime import make_runtime, pick_device
from muzero.selfplay.worker import PlayRequest, PlayResult
from muzero.training import optimizer_state as learner_state
from muzero.training.learner import DivergedError, Learner

CHANGEABLE = (
    "logging",
    "runtime",
    "run_dir",
    "train.iterations",
    "train.minutes",
    "train.checkpoint_every",
    "search.backend",
    "game.pace",  # only ever referred to: what it sets is compared where it is used
)
EXIT_BAD_INPUT, EXIT_DIVERGED = 2, 3
_REANALYSED = 256  # positions at a time

ConfigStore.instance().store(name="schema", node=Config)


class Trainer:
    """A run."""

    def __init__(self, config: Config, run: RunDirectory) -> None:
        self.config, self.run = config, run
        self.threads = config.runtime.threads or cores()
        self.asynchronous = config.train.mode == "async"
        if self.asynchronous and config.runtime.kind == "local":  # self-play has the other half
            self.threads = max(1, self.threads // 2)
        torch.set_num_threads(self.threads)
        self.device = pick_device(config.runtime.device)
        if config.train.mode == "sync" and self.device.type == "cuda":  # the same seed, the same bytes
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True, warn_only=True)
        torch.manual_seed(config.seed)
        counts = config.player_counts()
        specs = [GameSpec.of(config.game.name, players) for players in counts]
        self.network = Network(specs[-1], config.model).to(self.device)  # serves smaller tables, too
        smaller = [Network(spec, config.model).to(self.device) for spec in specs[:-1]]
        self.learner = Learner(self.network, config.learner, smaller, config.search.discount)
        self.replays = {spec.num_players: make_replay(config, spec, self.network.frame) for spec in specs}
        self.permutations = {p: SlotPermutation(config.game.name, p) for p in counts} if config.replay.relabel else {}
        self.curriculum = Curriculum(config.selfplay.curriculum, config.game.bots)
        self.pool = Pool(config.selfplay.pool)
        self.rng = np.random.default_rng(config.seed)
        self.iteration = 0  # made
        self.games = 0
        self.earlier = 0.0  # seconds of earlier processes
        self.started = time.monotonic()
        self.runtime = make_runtime(config)
        self.saved: Path | None = None
        found = checkpoint.load_latest(run.path)
        if found:
            self._resume(found)
        self.finished = self._is_finished()
        self.metrics = metrics.Metrics(run.path, offset=int(found.state["metrics_offset"]) if found else 0)
        self._reanalysers: dict[int, Planner] = {}
        self._judge: Searcher | None = None
        self._members_before = list(self.pool.members)

    # ---- the loop ----------------------------------------------------------------------------------------------

    def train(self) -> int:
        """Goes on to the end; returns the exit code."""
        config, train = self.config, self.config.train
        wandb = Wandb(
            self.run.path,
            config.logging.wandb,
            project=config.logging.project,
            config=self.run.config,
            group=config.variant,
        )
        console = Console(quiet=config.logging.display == "none", force_terminal=_terminal(config.logging.display))
        display = Display(
            train.iterations,
            start=self.iteration,
            seconds=train.minutes * 60 - self.elapsed if train.minutes else None,
            console=console,
        )
        before = self.iteration
        with Interruption() as interruption, display:
            try:
                if self.asynchronous and not self.finished:
                    for _ in range(config.runtime.in_flight if config.runtime.kind == "ray" else 1):
                        self._request()
                if config.evaluation.every and not self.finished:
                    self._evaluator()  # its memory and its compiler are wanted from the start
                while not self.finished:
                    record, timings = self._iterate()
                    self.metrics.log(record, timings)
                    wandb.log(record, timings)
                    display.update(record, timings)
                    stop = interruption.requested
                    due = self._due(train.checkpoint_every) or self._due(train.keep_every)
                    if stop or self.finished or due or self.pool.wants(self.iteration):
                        self.save()
                    if stop:
                        name = interruption.signal.name if interruption.signal else ""
                        console.print(f"{name}: saved {self.saved}; run the same command to go on")
                        return EXIT_REQUEUE
            except DivergedError as error:
                kept = self.saved or "none: there was no checkpoint yet"
                print(f"error: {error}\nlast good checkpoint: {kept}", file=sys.stderr)
                return EXIT_DIVERGED
            finally:
                wandb.close()
                self.metrics.close()
                self.runtime.close()
        console.print(self._farewell(before), soft_wrap=True)
        return 0

    def _farewell(self, before: int) -> str:
        """What has come of the run, of which so many iterations had been made before."""
        train = self.config.train
        made = f"{self.iteration} iterations in {self.elapsed / 60:.1f} minutes: {self.saved}"
        if self.iteration > before:
            return f"{made}\npython -m muzero.report {self.run.path} draws its curves"
        ends = f"train.iterations={train.iterations} or train.minutes={train.minutes:g}"
        return f"{made}\nnothing is left to do; a larger {ends} goes on"

    @property
    def elapsed(self) -> float:
        """Seconds of the run, of earlier processes too."""
        return self.earlier + time.monotonic() - self.started

    def _is_finished(self) -> bool:
        minutes = self.config.train.minutes
        return self.iteration >= self.config.train.iterations or (0 < minutes * 60 <= self.elapsed)

    def _due(self, every: int) -> bool:
        return every > 0 and self.iteration % every == 0

    def _iterate(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """One iteration: games, then steps; beside each other in async mode."""
        started = time.perf_counter()
        if not self.asynchronous:
            self._request()
        played = self.runtime.gather()
        waited = time.perf_counter() - started
        self._take_in(played)
        if self.asynchronous:
            self._request()
        learning = time.perf_counter()
        losses = self._learn()
        learned = time.perf_counter() - learning
        self.iteration += 1
        self.finished = self._is_finished()
        record: dict[str, Any] = {"iteration": self.iteration, "losses": losses, "diagnostics": self._diagnose(played)}
        judging = time.perf_counter()
        if self._due(self.config.evaluation.every) or (self.config.evaluation.every and self.finished):
            record |= evaluate_bots(self._evaluator(), self.config)
        give_back_memory()
        now = time.perf_counter()
        timings = self._timings(played, now - started, waited, learned)
        timings["seconds"]["evaluation"] = now - judging
        timings["elapsed"] = self.elapsed
        if self.pool.wants(self.iteration):
            self.pool.add(self.iteration)
        return record, timings

    def _request(self) -> None:
        c = self.config
        member = self.pool.draw(self.rng)
        rival = None
        if member is not None:
            kept = checkpoint.load_weights(self.run.path / checkpoint.CHECKPOINTS / f"{member:06d}")
            rival = kept.ema or kept.weights
        orders = PlayRequest(
            version=self.iteration,
            episodes=c.selfplay.games_per_iteration,
            moves=c.selfplay.steps_per_iteration,
            simulations=self._simulations(),
            temperature=float(scheduled(c.selfplay.temperature, self.iteration, 1.0)),
            mixture=self._mixture(rival is not None),
            replays=c.logging.replays,
        )
        self.runtime.request(orders, self.learner.playing_weights(), rival)

    def _mixture(self, rival: bool) -> OpponentMix:
        pool = self.config.selfplay.pool.share if rival else 0.0
        return OpponentMix(
            pool, self.curriculum.shares(), self.curriculum.bot_vs_bot(), self.curriculum.config.takeover_after
        )

    def _take_in(self, played: list[PlayResult]) -> None:
        kept = [replay for part in played for replay in part.replays]
        for number, replay in enumerate(kept):
            replay.save(self.run.path / "replays" / f"{self.iteration + 1:06d}-{number}.json")
        for part in played:
            for episode, opponent, points in zip(part.episodes, part.opponents, part.points, strict=True):
                self.replays[episode.num_players].add(episode)
                self.games += 1
                if opponent >= 0 and not episode.truncated:
                    self.curriculum.note(opponent, points, episode.num_players)

    def _learn(self) -> dict[str, float]:
        c = self.config
        if not all(replay.ready(-(-c.replay.warm_up // len(self.replays))) for replay in self.replays.values()):
            return {}
        if c.replay.reanalyse:
            self._reanalyse(round(c.replay.reanalyse * c.train.steps * c.learner.batch))
        for _ in range(c.train.steps):
            replay = self._some_replay()
            batch = replay.sample(c.learner.batch, self.rng)
            if c.replay.relabel:
                batch = self.permutations[replay.num_players](batch, self.rng)
            surprise = self.learner.step(batch, self.iteration)
            if c.replay.alpha > 0:
                priority = surprise.cpu().numpy()
                if np.isfinite(priority).all():  # if not, the report below is an error
                    replay.update(batch.index, batch.stamp, priority)
        return self.learner.report()

    def _some_replay(self) -> ReplayBuffer:
        """That of a number of players, as often as its share of the decisions stored."""
        replays = list(self.replays.values())
        if len(replays) == 1:
            return replays[0]
        sizes = np.array([len(replay) for replay in replays])
        return replays[int(self.rng.choice(len(replays), p=sizes / sizes.sum()))]

    def _reanalyse(self, count: int) -> None:
        """Searches stored positions again."""
        c = self.config
        simulations = self._simulations()
        for players in self.replays:
            planner = self._reanalysers.get(players)
            if planner is None or planner.config.simulations != simulations:
                spec = GameSpec.of(c.game.name, players)
                network = Network(spec, c.model).to(self.device).eval()
                self._reanalysers[players] = Planner(network, self._search(simulations), _REANALYSED)
            weights = self.network.weights_for(players, self.learner.playing_weights())
            self._reanalysers[players].network.load_state_dict(weights)
        while count > 0:
            replay = self._some_replay()
            P = replay.num_players
            p = replay.sample_positions(min(_REANALYSED, count, len(replay)), self.rng)
            keys = self.rng.integers(0, 2**63, len(p.obs)).astype(np.uint64)
            plan = self._reanalysers[P].plan(p.obs, p.legal, p.phase, keys)
            values = by_seat(plan.values, p.to_play, P, self.network.spec.private)
            replay.refresh(p.index, p.stamp, plan.policy, values)
            count -= len(p.obs)

    def _simulations(self) -> int:
        """Per decision of self-play, now."""
        c = self.config
        return int(scheduled(c.selfplay.simulations, self.iteration, c.search.simulations))

    def _search(self, simulations: int) -> SearchConfig:
        """For searches in this process, which may have a GPU where self-play has none."""
        search = replace(self.config.search, simulations=simulations)
        return replace(search, backend="auto") if search.backend == "native" else search

    def _evaluator(self) -> Searcher:
        """The network that plays, with greedy search."""
        e = self.config.evaluation
        if self._judge is None:
            spec = GameSpec.of(self.config.game.name, self.config.game.players)
            network = Network(spec, self.config.model).to(self.device).eval()
            self._judge = Searcher(network, self._search(e.simulations), self.config.selfplay.tables, name="agent")
        weights = self.network.weights_for(self.config.game.players, self.learner.playing_weights())
        self._judge.planner.network.load_state_dict(weights)
        return self._judge

    # ---- what is reported --------------------------------------------------------------------------------------

    def _diagnose(self, played: list[PlayResult]) -> dict[str, Any]:
        episodes = [episode for part in played for episode in part.episodes]
        lengths = [len(episode) for episode in episodes]
        met = {
            f"win_rate_{name}": rate
            for name, rate, games in zip(
                self.curriculum.bots, self.curriculum.rates, self.curriculum.games, strict=True
            )
            if games
        }
        entropy = [
            -(e.policy[e.has_policy] * np.log(e.policy[e.has_policy] + 1e-9)).sum(1).mean()
            for e in episodes
            if e.has_policy.any()
        ]
        return {
            "games": self.games,
            "steps": self.learner.steps,
            "learning_rate": self.learner.learning_rate(),
            "replay_fill": float(np.mean([replay.fill for replay in self.replays.values()])),
            "replay_decisions": sum(len(replay) for replay in self.replays.values()),
            "episode_length": float(np.mean(lengths)) if episodes else None,
            "truncated": float(np.mean([episode.truncated for episode in episodes])) if episodes else None,
            "policy_entropy": float(np.mean(entropy)) if entropy else None,
            "bot_share": sum(self.curriculum.shares()),
            "pool": len(self.pool.members),
            **met,
        }

    def _timings(self, played: list[PlayResult], whole: float, waited: float, learned: float) -> dict[str, Any]:
        decisions = sum(part.decisions for part in played)
        simulations = sum(part.clock.simulations for part in played)
        playing = sum(part.seconds for part in played)
        # Lanes and actors work side by side: their clocks are scaled to the time that passed (beside the learner, to
        # that of a worker).
        clocks = {
            "env": sum(part.env_seconds for part in played),
            "tree": sum(part.clock.tree for part in played),
            "network": sum(part.clock.network + part.clock.encoder for part in played),
        }
        lanes = max(1.0, (clocks["tree"] + clocks["network"]) / max(playing - clocks["env"], 1e-9))
        scale = (playing / max(1, len(played)) if self.asynchronous else waited) / max(playing, 1e-9)
        seconds = {name: value * scale / (1.0 if name == "env" else lanes) for name, value in clocks.items()}
        # ChildProcessRuntime the learner self-play costs no time of its own, only waiting for it does.
        spent = {**({"waiting": waited} if self.asynchronous else seconds), "learner": learned}
        return {
            "speed": {
                "games": sum(len(part.episodes) for part in played) / whole,
                "decisions": decisions / whole,
                "simulations": simulations / whole,
                "steps": (self.config.train.steps if self.learner.steps else 0) / whole,
            },
            "selfplay": {
                "seconds": playing,
                "decisions_per_s": decisions / max(playing, 1e-9),
                "staleness": float(np.mean([self.iteration - 1 - part.version for part in played])),  # iterations
                "restarts": getattr(self.runtime, "restarts", 0),  # of actors that died
                **seconds,
            },
            "seconds": spent,
            **({"beside": seconds} if self.asynchronous else {}),
            "iteration_seconds": whole,
            "megabytes": {"learner": resident_megabytes(), "selfplay": max(part.megabytes for part in played)},
        }

    # ---- checkpoints -------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Writes a checkpoint."""
        c = self.config
        tensors: dict[str, Mapping[str, torch.Tensor]] = {
            "weights": {n: p.detach().cpu() for n, p in self.network.named_parameters()}
        }
        memory, optimizer = learner_state.optimizer_state(self.learner.optimizer, self.network)
        tensors["optimizer"] = {name: tensor.cpu() for name, tensor in memory.items()}
        if self.learner.ema is not None:
            tensors["ema"] = {name: tensor.cpu() for name, tensor in self.learner.ema.items()}
        state = {
            "optimizer": optimizer,
            "steps": self.learner.steps,
            "games": self.games,
            "elapsed": self.elapsed,
            "curriculum": self.curriculum.state(),
            "pool": self.pool.members,
            "rng": learner_state.rng_to_json(self.rng),
            "metrics_offset": self.metrics.offset,
        }
        agent = {
            "game": c.game.name,
            "game_version": self.network.spec.version,
            "players": c.game.players,
            "player_counts": c.player_counts(),
            "rules": c.game.rules,
            "variant": c.variant,
            "model": asdict(c.model),
            "search": asdict(self._search(self._simulations())),
        }
        # The checkpoint before, which is there in case this one is damaged, may want members that have since left.
        kept = {*range(0, self.iteration + 1, c.train.keep_every), *self.pool.members, *self._members_before}
        self._members_before = list(self.pool.members)
        self.saved = checkpoint.save(
            self.run.path,
            self.iteration,
            tensors=tensors,
            arrays={
                **{f"replay_{players}": replay.state() for players, replay in self.replays.items()},
                "selfplay": self.runtime.state(),
            },
            state=state,
            agent=agent,
            permanent=kept,
        )

    def _resume(self, found: checkpoint.Checkpoint) -> None:
        state = found.state
        self.network.load_state_dict(found.tensors["weights"])
        learner_state.restore_optimizer(
            self.learner.optimizer, self.network, found.tensors["optimizer"], state["optimizer"]
        )
        if self.learner.ema is not None:
            self.learner.load_ema(found.tensors["ema"])
        self.learner.steps = int(state["steps"])
        for players, replay in self.replays.items():
            replay.load(found.arrays[f"replay_{players}"])
        self.games, self.earlier = int(state["games"]), float(state["elapsed"])
        self.curriculum.load(state["curriculum"])
        self.pool.members = [int(member) for member in state["pool"]]
        self.rng = learner_state.rng_from_json(state["rng"])
        self.iteration, self.saved = found.iteration, found.path
        self.runtime.load(found.arrays["selfplay"], self.games)


def make_replay(config: Config, spec: GameSpec, frame: str) -> ReplayBuffer:
    """The replay for a number of players, with its share of the memory."""
    c = config.at_tables_for(spec.num_players)
    try:
        return ReplayBuffer(
            num_players=spec.num_players,
            width=spec.width,
            num_actions=spec.num_actions,
            num_phases=len(spec.phase_table.possible),
            budget_bytes=int(c.replay.megabytes * 2**20),
            unroll=c.learner.unroll,
            steps=c.learner.td_steps,
            discount=c.search.discount,
            frame=frame,
            keep_share=c.replay.keep_share,
            keep_at_least=c.replay.keep_at_least,
            stratify=c.replay.stratify,
            alpha=c.replay.alpha,
            beta=c.replay.beta,
        )
    except MemoryError:
        raise ValueError(
            f"replay.megabytes: expected what this machine has room for, got {config.replay.megabytes:g}"
        ) from None


def _terminal(display: str) -> bool | None:
    return None if display == "auto" else False


def read_config(raw: DictConfig) -> Config:
    """A checked configuration from what Hydra composed."""
    try:  # Hydra lets +unknown.key=1 pass
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.to_container(raw)))
    except OmegaConfBaseException as error:
        raise ValueError(error) from None
    assert isinstance(config, Config)
    config.check()
    return config


def run_directory(config: Config) -> Path:
    """The directory that the user named, or one named by the configuration."""
    if config.run_dir:
        return Path(config.run_dir)
    name = f"{config.game.name}-{config.variant}-{config_hash(asdict(config), CHANGEABLE)}"
    return Path("runs") / name


@contextmanager
def prepared(config: Config) -> Iterator[Trainer]:
    """A trainer in its run directory, ready to go on. Bad input is refused here, not later."""
    device = pick_device(config.runtime.device)
    on_gpu = config.runtime.worker_gpus > 0 if config.runtime.kind == "ray" else device.type == "cuda"
    backend = config.search.backend
    require(on_gpu or backend != "cuda_graphs", "search.backend", "not cuda_graphs where self-play has no GPU", backend)
    require(not on_gpu or backend != "native", "search.backend", "not native where self-play has a GPU", backend)
    if backend == "native":
        how_to_run(Network(GameSpec.of(config.game.name, config.game.players), config.model), config.search)
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


def run(raw: DictConfig) -> int:
    """Trains as Hydra's configuration says; returns the exit code."""
    with ExitStack() as stack:
        try:
            trainer = stack.enter_context(prepared(read_config(raw)))
        except (ValueError, RunLocked) as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_BAD_INPUT
        return trainer.train()
