"""The training loop: self-play, learning, bot evaluation and checkpoints, iteration by iteration."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from rich.console import Console

from muzero.agents.frozen import make_exploited
from muzero.config import Config, cores, scheduled
from muzero.data.augmentation import SlotPermutation
from muzero.data.match_table import match_table
from muzero.data.replay_buffer import Batch, ReplayBuffer
from muzero.data.rollouts import Rollout
from muzero.matches.belief_check import check_beliefs, has_card_beliefs
from muzero.matches.bot_evaluation import Evaluator
from muzero.matches.value_check import check_values
from muzero.runs import checkpoint, hints
from muzero.runs.display import Display
from muzero.runs.files import CheckpointError, writing
from muzero.runs.memory import collect_all_objects, give_back_memory, spare_present_objects
from muzero.runs.metrics import Metrics
from muzero.runs.processes import pick_device
from muzero.runs.provenance import provenance
from muzero.runs.run_directory import EXIT_REQUEUE, Interruption, RunDirectory
from muzero.runs.sinks import Wandb, group_of
from muzero.runs.tensorboard import TensorBoard
from muzero.search.planner import NetworkError
from muzero.selfplay.opponents import OpponentMix
from muzero.selfplay.runtime import make_runtime
from muzero.selfplay.worker import PlayRequest, PlayResult
from muzero.training.iteration_metrics import Seconds, diagnostics, timings
from muzero.training.learner import DivergedError
from muzero.training.peers import join_peers, own_device
from muzero.training.ppo import PpoLearner
from muzero.training.ppo_epochs import learn_from_rollouts
from muzero.training.priorities import Priorities
from muzero.training.reanalysis import Reanalyser
from muzero.training.run_state import RunState, simulations_at
from muzero.training.warm_start import initial_weights

EXIT_DIVERGED = 3


def play_request(config: Config, iteration: int, opponents: OpponentMix) -> PlayRequest:
    """Request for the games of one iteration after so many others, with these opponents."""
    selfplay = config.selfplay
    return PlayRequest(
        version=iteration,
        games=selfplay.games_per_iteration,
        steps=selfplay.steps_per_iteration,
        simulations=simulations_at(config, iteration),
        temperature=float(scheduled(selfplay.temperature, iteration, 1.0)),
        opponents=opponents,
        records=config.logging.records,
    )


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Make torch count denormal numbers as 0 in this thread: faded gradients and averages, slow on many processors.

    Afterwards the thread computes with them again, as everything else in the process expects.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Trainer:
    """A run in its directory, from its newest checkpoint on.

    Attributes:
      state: state of the run, all that a checkpoint holds except the games under way.
      runtime: self-play workers, with the games under way.
      evaluator: opponents and agents of evaluations.
      asynchronous: whether self-play runs at the same time as the learner.
      threads: number of threads of torch in this process.
      finished: whether the run has reached its number of iterations or minutes.
    """

    def __init__(self, config: Config, run: RunDirectory) -> None:
        self.config, self.run = config, run
        self.threads = config.runtime.threads or cores()
        self.asynchronous = config.train.mode == "async"
        if self.asynchronous and config.runtime.kind == "local":  # self-play has the other half of the cores
            self.threads = max(1, self.threads // 2)
        torch.set_num_threads(self.threads)
        self.device = own_device(pick_device(config.runtime.device))
        if config.train.mode == "sync" and self.device.type == "cuda":  # so that the same seed gives the same bytes
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True, warn_only=True)
        torch.manual_seed(config.seed)
        self.state = RunState(config, self.device, join_peers(config.learner.batch, self.device))
        counts = config.player_counts()
        self.permutations = {p: SlotPermutation(config.game.name, p) for p in counts} if config.replay.relabel else {}
        self.runtime = make_runtime(config, make_exploited)
        found = checkpoint.load_latest(run.path)
        if found:
            self.state.load(found)
            try:
                self.runtime.load(found.arrays["selfplay"], self.state.games)
            except ValueError as error:
                raise CheckpointError(f"{found.path / 'selfplay.npz'}: {error}") from None
        elif (weights := initial_weights(config)) is not None:
            self.state.start_from(weights)
        self.state.learner.share_state()
        self.finished = self._is_finished()
        self.metrics = Metrics(run.path, offset=int(found.state["metrics_offset"]) if found else 0)
        self._reanalyser = Reanalyser(self.state, self.device)
        self._priorities = Priorities()
        self.evaluator = Evaluator(config, run.path, self.device, self.state.search(config.evaluation.simulations))
        self._rollouts: list[Rollout] = []  # steps that have not been learned from, with train.algorithm=ppo

    # ---- the loop ----------------------------------------------------------------------------------------------

    def train(self) -> int:
        """Make all iterations that are left; returns the exit code."""
        config, train, state = self.config, self.config.train, self.state
        sinks = self._sinks()
        shown = config.logging.display
        console = Console(quiet=shown == "none", force_terminal=None if shown == "auto" else False)
        display = Display(
            train.iterations,
            start=state.iteration,
            elapsed=state.elapsed,
            seconds=train.minutes * 60 - state.elapsed if train.minutes else None,
            console=console,
        )
        before = state.iteration
        with Interruption(display.announce) as interruption, display:
            try:
                if self.asynchronous and not self.finished:
                    for _ in range(config.runtime.in_flight if config.runtime.kind == "ray" else 1):
                        self.request()
                if config.evaluation.every and not self.finished:
                    self.evaluator.prepare()
                spare_present_objects()
                while not self.finished:
                    record, clock = self.iterate()
                    self.metrics.log(record, clock)
                    for sink in sinks:
                        sink.log(record, clock)
                    display.update(record, clock)
                    stop = interruption.requested
                    due = self._due(train.checkpoint_every) or self._due(train.keep_every)
                    if stop or self.finished or due or state.pool.wants(state.iteration):
                        self.save()
                    if stop:
                        display.close()  # nothing is drawn below the message
                        name = interruption.signal.name if interruption.signal else ""
                        console.print(f"{name}: saved {state.saved}; run the same command to go on", soft_wrap=True)
                        return EXIT_REQUEUE
            except (DivergedError, NetworkError) as error:
                display.close()
                kept = state.saved or "none: there was no checkpoint yet"
                print(f"error: {error}\nlast good checkpoint: {kept}", file=sys.stderr)
                return EXIT_DIVERGED
            finally:
                for sink in sinks:
                    sink.close()
                self.close()
                collect_all_objects()  # a sweep trains run after run in one process
        console.print(self._summary(state.iteration - before), soft_wrap=True)
        return 0

    def iterate(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Make one iteration: games, then learner steps; in async mode the next games are played meanwhile.

        In async mode a request must be under way: call `request` once before the first iteration.

        Returns:
          Record for metrics.jsonl, and timings for timings.jsonl.
        """
        state, every = self.state, self.config.evaluation.every
        started = time.perf_counter()
        if not self.asynchronous:
            self.request()
        played = self.runtime.gather()
        waiting = time.perf_counter() - started
        self.state.note_results(played)
        if self.asynchronous:
            self.request()  # games need the results, but not the episodes in the replay buffers
        self.store(played)
        began, steps = time.perf_counter(), state.learner.steps
        with denormals_flushed():
            losses = self.learn()
        learning = time.perf_counter() - began
        state.iteration += 1
        self.finished = self._is_finished()
        record: dict[str, Any] = {
            "iteration": state.iteration,
            "losses": losses,
            "diagnostics": diagnostics(state, played),
        }
        began = time.perf_counter()
        early = every > 0 and state.iteration == self.config.evaluation.first
        if self._due(every) or early or (every and self.finished):
            record |= self.evaluator.evaluate(state.iteration, state.network, state.learner.playing_weights())
            record["diagnostics"] |= self._network_diagnostics()
        give_back_memory()
        now = time.perf_counter()
        clock = timings(
            Seconds(whole=now - started, waiting=waiting, learner=learning, evaluation=now - began),
            played,
            iteration=state.iteration,
            steps=state.learner.steps - steps,
            asynchronous=self.asynchronous,
            restarts=getattr(self.runtime, "restarts", 0),
        )
        clock["elapsed"] = state.elapsed
        if state.pool.wants(state.iteration):
            state.pool.add(state.iteration)
        return record, clock

    def request(self) -> None:
        """Ask self-play for the games of one iteration, with the newest weights and opponents."""
        state = self.state
        member = state.pool.draw(state.rng)
        past_self = None
        if member is not None:
            kept = checkpoint.load_weights(self.run.path / checkpoint.CHECKPOINTS / f"{member:06d}")
            past_self = kept.ema or kept.weights
        request = play_request(self.config, state.iteration, self._opponents(past_self is not None))
        self.runtime.request(request, state.learner.playing_weights(), past_self)

    def _opponents(self, past_self: bool) -> OpponentMix:
        """Probabilities of the opponents, with or without a past version of the network."""
        curriculum = self.state.curriculum
        if self.config.exploit:
            return OpponentMix(0.0, tuple(0.0 for _ in curriculum.bots), exploited=1.0)
        share = self.config.selfplay.pool.share if past_self else 0.0
        return OpponentMix(
            share, curriculum.shares(), curriculum.bot_vs_bot(), self.config.selfplay.curriculum.takeover_after
        )

    def store(self, played: list[PlayResult]) -> None:
        """Add finished games to the replay buffers, and write game records that were asked for."""
        kept = [record for part in played for record in part.records]
        for index, record in enumerate(kept):
            path = self.run.path / "records" / f"{self.state.iteration + 1:06d}-{index}.json"
            with writing(path):
                record.save(path)
        self.state.add_episodes(played)
        self._rollouts = [rollout for part in played for rollout in part.rollouts]

    def learn(self) -> dict[str, float]:
        """Make the learner steps of one iteration; returns the mean losses, or {} before the warm-up is over."""
        c, state = self.config, self.state
        if isinstance(state.learner, PpoLearner):
            rollouts, self._rollouts = self._rollouts, []
            given = state.learner, rollouts, c.ppo, state.rng, state.iteration
            return learn_from_rollouts(*given, before_step=self.use_free_cores)
        if not state.warmed_up():
            return {}
        if c.replay.reanalyse:
            self._reanalyser.refresh(round(c.replay.reanalyse * c.train.steps * c.learner.batch))
        with ThreadPoolExecutor(1) as pool:
            drawn = pool.submit(self._draw)

            def draw_next() -> None:
                nonlocal drawn
                drawn = pool.submit(self._draw)

            for left in reversed(range(c.train.steps)):
                self.use_free_cores()
                replay, batch = drawn.result()
                td_error = state.learner.step(batch, state.iteration, draw_next if left else None)
                if c.replay.alpha > 0:
                    drawn.result()  # the batch that is drawn meanwhile does not know these priorities yet, in any run
                    self._priorities.note(replay, batch, td_error)
        self._priorities.finish()
        return state.learner.report()

    def _draw(self) -> tuple[ReplayBuffer, Batch]:
        """Sample the batch of a learner step. Other threads must leave `state.rng` and the replay buffers alone."""
        c, state = self.config, self.state
        replay = state.draw_buffer()
        batch = replay.sample(c.learner.batch, state.rng)
        if c.replay.relabel:
            batch = self.permutations[replay.num_players](batch, state.rng)
        return replay, batch

    def use_free_cores(self) -> None:
        """Give the learner's next step the cores of self-play, too, once the requested games are played."""
        all_cores = self.config.runtime.threads or cores()
        self.state.learner.use_threads(all_cores if self.runtime.idle else self.threads)

    def save(self) -> None:
        """Write a checkpoint."""
        self.state.save(self.run.path, self.runtime.state(), self.metrics.offset)

    def close(self) -> None:
        """Stop the self-play workers and the other learners, and close the metrics files."""
        self.metrics.close()
        self.runtime.close()
        if self.state.learner.peers is not None:
            self.state.learner.peers.stop()

    # ---- parts of the loop -------------------------------------------------------------------------------------

    def _sinks(self) -> list[Wandb | TensorBoard]:
        """Dashboards that get the metrics, too."""
        c = self.config.logging
        wandb = Wandb(
            self.run.path,
            c.wandb,
            project=c.project,
            entity=c.entity,
            config={**self.run.config, "provenance": provenance()},
            group=c.group or group_of(self.run.path, self.config.variant),
            tags=c.tags,
            notes=c.notes,
            job_type=c.job_type,
            artifacts=c.artifacts,
        )
        return [wandb, TensorBoard(self.run.path, c.tensorboard)]

    def _is_finished(self) -> bool:
        train, state = self.config.train, self.state
        return state.iteration >= train.iterations or (0 < train.minutes * 60 <= state.elapsed)

    def _due(self, every: int) -> bool:
        return every > 0 and self.state.iteration % every == 0

    def _network_diagnostics(self) -> dict[str, float]:
        """Errors of the network that self-play uses: of values, against playouts of its policy, and of card beliefs."""
        c, state, rules = self.config.evaluation, self.state, self.config.game.rules_for_training()
        if not c.value_positions:
            return {}
        agent = self.evaluator.agent(self.config.game.players, state.network, state.learner.playing_weights())
        network, match = agent.planner.network, match_table(self.config.game)
        check = check_values(network, rules, positions=c.value_positions, playouts=8, seed=c.seed, match=match)
        state.value_rmse = check.rmse
        found = {"value_rmse": check.rmse, "value_bias": check.bias, "value_spread": check.spread}
        if has_card_beliefs(network):
            beliefs = check_beliefs(network, rules, positions=c.value_positions, seed=c.seed)
            found |= {f"belief_{name}": mean for name, mean in beliefs.means().items()}
        return found

    def _summary(self, made: int) -> str:
        """Closing message of a process that made `made` iterations."""
        train, state = self.config.train, self.state
        total = f"{state.iteration} iterations in {state.elapsed / 60:.1f} minutes: {state.saved}"
        if made:
            return f"{total}\ndraw its curves: {hints.command('muzero.report', self.run.path)}"
        ends = f"train.iterations={train.iterations} or train.minutes={train.minutes:g}"
        return f"{total}\nnothing is left to do; a larger {ends} goes on"
