"""Self-play worker: plays many tables in lockstep and returns finished games as episodes.

The current network decides by search. A worker keeps its tables from call to call: `play` returns when enough games
have ended, and the games in progress continue with the next call. Nothing here depends on the runtime that runs the
worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import env
from env.game_record import GameRecord
from muzero.config import Config
from muzero.config.fields import require
from muzero.data.match_table import match_table
from muzero.data.rollouts import Rollout
from muzero.data.seats import to_seats
from muzero.data.trajectory import Episode, TrajectoryBuffer
from muzero.model.interface import BaseNetwork
from muzero.model.network import make_network
from muzero.model.spec import GameSpec
from muzero.runs.memory import give_back_memory, resident_megabytes
from muzero.search.backend import resolve_backend
from muzero.search.judge import make_native_values
from muzero.search.planner import Clock, Plan, Planner
from muzero.selfplay.expectations import Expectations
from muzero.selfplay.opponents import BOT_VS_BOT, EXPLOITED, NEVER, PAST_SELF, SELF, MakeOpponent, OpponentMix
from muzero.selfplay.past_selves import NOBODY, PastSelves
from muzero.selfplay.rollout_recorder import RolloutRecorder, without_search
from muzero.selfplay.saved_games import check_past_selves, check_saved_games, is_of_past_selves


@dataclass(frozen=True)
class PlayRequest:
    """Request to a worker.

    Attributes:
      version: version of the weights to play with.
      games: number of games to finish, if `steps` is 0.
      steps: number of steps that all tables make; 0 to play until `games` have ended.
      simulations: number of simulations per decision.
      temperature: temperature of the choice among visit counts (puct).
      opponents: probability of each kind of opponent in games that begin.
      records: number of finished games to return as game records, too.
    """

    version: int
    games: int
    steps: int
    simulations: int
    temperature: float
    opponents: OpponentMix
    records: int = 0


@dataclass
class PlayResult:
    """Result of a `PlayRequest`.

    Attributes:
      version: version of the weights, as requested.
      episodes: episodes of the games that ended.
      opponents: kind of opponent in each episode.
      points: share of the win of the current network in each episode; 0.5, without meaning, where it or bots played all
        seats.
      decisions: number of decisions of the current network.
      table_steps: number of decisions of all players at all tables.
      seconds: duration of the whole call.
      env_seconds: seconds spent in the environment, bots included.
      clock: time and work of the searches.
      megabytes: resident memory of the worker's process in megabytes.
      records: game records of the first games that ended.
      rollouts: steps of all tables in this call, one rollout per number of players; none unless
        `train.algorithm` learns from them.
    """

    version: int = 0
    episodes: list[Episode] = field(default_factory=list)
    opponents: list[int] = field(default_factory=list)
    points: list[float] = field(default_factory=list)
    decisions: int = 0
    table_steps: int = 0
    seconds: float = 0.0
    env_seconds: float = 0.0
    clock: Clock = field(default_factory=Clock)
    megabytes: float = 0.0
    records: list[GameRecord] = field(default_factory=list)
    rollouts: list[Rollout] = field(default_factory=list)


def deal_seed(config: Config) -> int:
    """Seed of the deals played in training; far from the small seeds of matches, whose deals must be new to the
    network."""
    return config.seed + (1 << 40)


class SelfPlay:
    """Self-play worker for one number of players.

    Args:
      config: configuration of the run.
      worker, workers: index of this worker, and number of all workers; no two workers play the same deal.
      device: device of its networks.
      exploited: function that makes the agent to exploit, if `exploit` names one.

    Attributes:
      started: number of games begun.
      owner: int8 [B, P] player that decides for each seat: SELF, PAST_SELF, EXPLOITED or the number of a bot.
      kind: int8 [B] kind of opponent at each table.
      deals: int64 [B] deal of the game at each table, -1 if unknown.
      takeover_after: int64 [B] number of decisions after which the network takes all seats.
      past_selves: past networks; a game that began against one of them ends against it.
      match: chances to win a match, which the end of a round pays; None if it pays as the rules say.
      exploited: agent that the network learns to beat (`exploit`), which never learns itself; None without one.
      expectations: expected worth of actions, by which luck is taken out of value targets; None if it stays in.
      recorder: recorder of rollouts, None if the algorithm does not learn from them.
    """

    def __init__(
        self,
        config: Config,
        worker: int = 0,
        workers: int = 1,
        device: str = "cpu",
        exploited: MakeOpponent | None = None,
    ) -> None:
        if config.train.algorithm == "ppo":
            config = replace(config, search=without_search(config.search))
        self.config, self.worker, self.workers = config, worker, workers
        self.device = torch.device(device)
        game, count = config.game, config.selfplay.tables // workers
        require(count >= 1, "selfplay.tables", f"at least one for each of {workers} workers", config.selfplay.tables)
        self.tables = env.make(
            game.name, count, game.players, game.rules_for_training(), deal_seed(config), auto_reset=False
        )
        self.match = match_table(game)
        self.spec = GameSpec.of_tables(self.tables)
        self.bots = [self.tables.bot(name) for name in game.bots]
        self.network = self._make_network()
        self.past_selves = PastSelves(count, self._make_network)
        self.exploited = exploited(self.config) if exploited is not None and config.exploit else None
        self.recorder = RolloutRecorder() if config.train.algorithm == "ppo" else None
        self.expectations = self._make_expectations() if config.selfplay.judged_outcomes else None
        t = self.tables
        longest = int(t.rules["max_decisions"])
        self.trajectory = TrajectoryBuffer(t.num_envs, t.num_players, t.width, t.num_actions, longest, t.num_slots)
        self.started = 0
        self.owner = np.full((count, game.players), SELF, np.int8)
        self.kind = np.full(count, SELF, np.int8)
        self.deals = np.full(count, -1, np.int64)
        self.takeover_after = np.full(count, NEVER, np.int64)
        self._planners: dict[int, Planner] = {}  # by index of the past network, NOBODY for the current network
        self._idle = True  # no game has begun yet

    def _make_expectations(self) -> Expectations:
        """Expected worth of actions, judged by the current network."""
        judge, outcomes = make_native_values(self.network), self.config.selfplay.judged_outcomes
        return Expectations(self.network, judge, outcomes, self.config.search.discount, self.match)

    def load_weights(self, weights: Mapping[str, Tensor], past_self: Mapping[str, Tensor] | None = None) -> None:
        """Load new weights of the current network, and of a past network for games that begin from now on."""
        self.network.load_state_dict(dict(weights))
        if self.expectations is not None:
            self.expectations.refresh()
        if past_self is not None:
            self.past_selves.offer(past_self)

    def planner(self, simulations: int, past_self: int = NOBODY) -> Planner:
        """Planner of the current network or of a past one, for up to all tables at once.

        It is kept until the number of simulations changes, or the network is another one.
        """
        network = self.network if past_self == NOBODY else self.past_selves.network(past_self)
        kept = self._planners.get(past_self)
        if kept is None or kept.network is not network or kept.config.simulations != simulations:
            search = replace(self.config.search, simulations=simulations)
            if past_self != NOBODY and resolve_backend(network, search) != "native":
                search = replace(search, backend="eager")  # games with a past network are few, in varying number
            self._planners.pop(past_self, None)
            self._planners[past_self] = Planner(network, search, self.tables.num_envs)
        return self._planners[past_self]

    def play(self, request: PlayRequest) -> PlayResult:
        """Play until enough games have ended, or enough steps have been made."""
        started, result, tables = perf_counter(), PlayResult(request.version), self.tables
        planner = self.planner(request.simulations)
        before = replace(planner.clock)
        if self._idle:
            self._begin(np.arange(tables.num_envs), request.opponents)
            self._idle = False
        steps = 0
        while steps < request.steps if request.steps else len(result.episodes) < request.games:
            self._step(request, planner, result)
            steps += 1
        if self.recorder is not None:
            result.rollouts.append(self._end_rollout(planner))
        after = planner.clock
        result.clock = Clock(**{name: getattr(after, name) - getattr(before, name) for name in vars(after)})
        result.seconds = perf_counter() - started
        give_back_memory()
        result.megabytes = resident_megabytes()
        return result

    def _make_network(self) -> BaseNetwork:
        """Network for play. Its first weights do not matter, so making it leaves torch's random numbers as they are."""
        with torch.random.fork_rng(devices=[]):
            return make_network(self.spec, self.config.model).to(self.device).eval()

    def begin_at(self, game: int) -> None:
        """Number the next game that begins `game`, so that the deals of earlier workers are not dealt again."""
        self.started = game

    def _begin(self, rows: NDArray[np.int64], opponents: OpponentMix) -> None:
        """Deal new games at some tables and draw the player of each seat."""
        P, seed = self.tables.num_players, self.config.seed
        deals = (self.started + np.arange(len(rows))) * self.workers + self.worker
        self.started += len(rows)
        self.tables.reset(deal_seed(self.config), deals=deals.tolist(), tables=rows.tolist())
        for row, deal in zip(rows, deals, strict=True):
            kind = opponents.draw((seed, int(deal)))
            self.kind[row] = kind
            self.deals[row] = deal
            self.takeover_after[row] = opponents.takeover_decision(kind, (seed, int(deal)))
            self.owner[row] = opponents.seat(kind, int(deal) // self.workers % P, P, (seed, int(deal)))
            self.past_selves.met[row] = self.past_selves.current if kind == PAST_SELF else NOBODY

    def _step(self, request: PlayRequest, planner: Planner, result: PlayResult) -> None:
        """Make one decision at every table."""
        tables, trajectory = self.tables, self.trajectory
        B, P, A = tables.num_envs, tables.num_players, tables.num_actions
        self.owner[trajectory.time - trajectory.begun >= self.takeover_after] = SELF
        owner = self.owner[np.arange(B), tables.to_play]
        keys = tables.decision_keys(self.config.seed + 1)
        actions = np.full(B, env.SKIP, np.int64)
        policy = np.zeros((B, A), np.float32)
        values = np.full((B, P), np.nan, np.float32)

        own = np.flatnonzero(owner == SELF)
        if len(own):
            plan = self._plan(planner, own, keys, request.temperature)
            actions[own], policy[own] = plan.actions, plan.policy
            values[own] = to_seats(plan.values, tables.to_play[own], P, own_only=self.spec.private)
        if (explored := self._explored(owner)).any():
            actions = np.where(explored, tables.sample_actions(self.config.seed + 3), actions)
        met = np.where(owner == PAST_SELF, self.past_selves.met, NOBODY)
        for index in np.unique(met[met != NOBODY]).tolist():
            theirs, past_planner = np.flatnonzero(met == index), self.planner(request.simulations, index)
            actions[theirs] = self._plan(past_planner, theirs, keys, request.temperature).actions
        theirs = np.flatnonzero(owner == EXPLOITED)
        if len(theirs):
            assert self.exploited is not None, "such games begin only if there is somebody to exploit"
            actions[theirs] = self.exploited(tables, theirs, self.config.seed)
        started = perf_counter()
        moves = tables.bot_actions(self.bots, self.config.seed, chosen=owner)
        actions = np.where(owner >= 0, moves, actions)
        # The environment's step overwrites its arrays: observations are stored before it, rewards after it.
        trajectory.write(obs=tables.obs, legal=tables.legal_bits, to_play=tables.to_play, phase=tables.phase)
        trajectory.write(scores=tables.scores, hidden=tables.true_cards(tables.to_play))
        events = self.expectations.before(tables, actions, self.config.seed + 4) if self.expectations else None
        tables.step(actions)
        luck = self.expectations.luck(tables, *events) if self.expectations and events else np.zeros((B, P), np.float32)
        rewards = tables.rewards if self.match is None else self.match.rewards(tables)
        trajectory.write(action=actions, rewards=rewards, policy=policy, has_policy=owner == SELF, values=values)
        trajectory.write(outcome=tables.outcome, luck=luck, explored=explored)
        trajectory.advance()
        if self.recorder is not None:
            self.recorder.note(trajectory)
        result.decisions += len(own)
        result.table_steps += B
        over = np.flatnonzero(tables.done)
        if len(over):
            self._collect(over, result)
            if self.recorder is not None:
                self.recorder.stop(over, result.episodes[-len(over) :])
            self._keep_records(over, request.records, result)
            self._begin(over, request.opponents)
        result.env_seconds += perf_counter() - started

    def _explored(self, owner: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Tables [B] at which a random action is taken; where the network meets others it plays as well as it can."""
        if not self.config.selfplay.explore:
            return np.zeros(len(owner), np.bool_)
        luck = (self.tables.decision_keys(self.config.seed + 2) >> np.uint64(11)).astype(np.float64) / 2**53
        met = (self.kind != SELF) & (self.kind != BOT_VS_BOT)
        explored: NDArray[np.bool_] = (owner == SELF) & ~met & (luck < self.config.selfplay.explore)
        return explored

    def _plan(self, planner: Planner, rows: NDArray[np.int64], keys: NDArray[np.uint64], temperature: float) -> Plan:
        """Search the positions at some tables."""
        t = self.tables
        return planner.plan(t.obs[rows], t.legal_bits[rows], t.phase[rows], keys[rows], temperature)

    def _collect(self, over: NDArray[np.int64], result: PlayResult) -> None:
        """Add the games that have just ended to the result."""
        tables = self.tables
        for row in over:
            ranks, kind = tables.ranks[row].copy(), int(self.kind[row])
            truncated, scores = bool(tables.truncated[row]), tables.scores[row].copy()
            episode = self.trajectory.take(int(row), ranks=ranks, truncated=truncated, scores=scores)
            gained = scores - episode.scores[0]  # who wins a round that began at other totals is told by its points
            best = ranks == 1 if self.match is None else gained == gained.min()
            result.episodes.append(episode)
            result.opponents.append(kind)
            met = kind in (PAST_SELF, EXPLOITED) or kind >= 0
            result.points.append(float((best / best.sum())[self.owner[row] == SELF].item()) if met else 0.5)

    def _end_rollout(self, planner: Planner) -> Rollout:
        """Rollout of the steps of this call.

        The games in progress are valued by the current network from the seat of the player to move, also for the other
        seats: where hands are hidden, such a value is what that player can know.
        """
        assert self.recorder is not None
        tables, rows = self.tables, self.recorder.in_progress()
        values = np.zeros((len(rows), tables.num_players), np.float32)
        if len(rows):
            plan = self._plan(planner, rows, tables.decision_keys(self.config.seed + 1), 1.0)
            values = to_seats(plan.values, tables.to_play[rows], tables.num_players)
        return self.recorder.finish(rows, values)

    def _keep_records(self, over: NDArray[np.int64], most: int, result: PlayResult) -> None:
        """Keep game records of the games that have just ended (the result's last episodes), `most` of them in all."""
        for row, episode in zip(over.tolist(), result.episodes[-len(over) :], strict=True):
            if len(result.records) < most:
                result.records.append(self._game_record(row, episode))

    def _game_record(self, row: int, episode: Episode) -> GameRecord:
        names = {SELF: "network", PAST_SELF: "past network", EXPLOITED: str(self.config.exploit)}
        if self.kind[row] == BOT_VS_BOT:
            names[SELF] = "bot, then network"
        agents = [names[o] if o < 0 else f"bot:{self.config.game.bots[o]}" for o in self.owner[row].tolist()]
        seed, deal = deal_seed(self.config), int(self.deals[row])
        return GameRecord.of(self.tables, row, seed=seed, deal=deal, agents=agents, actions=episode.action.tolist())

    def state(self) -> dict[str, NDArray[Any]]:
        """Complete state of the worker except the current network's weights, for a checkpoint."""
        blobs = [self.tables.save(row) for row in range(self.tables.num_envs)]
        return {
            **self.trajectory.state(),
            **self.past_selves.state(),
            "tables": np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1).copy(),
            "owner": self.owner.copy(),
            "kind": self.kind.copy(),
            "deals": self.deals.copy(),
            "takeover_after": self.takeover_after.copy(),
            "started": np.array([self.started, self._idle]),
        }

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a checkpoint."""
        blobs = np.atleast_1d(state.get("tables", np.zeros(0)))
        require(len(blobs) == self.tables.num_envs, "self-play tables", str(self.tables.num_envs), len(blobs))
        past = {name: array for name, array in state.items() if is_of_past_selves(name)}
        games, fresh = ({n: a for n, a in s.items() if not is_of_past_selves(n)} for s in (state, self.state()))
        longest = int(self.tables.rules["max_decisions"])
        check_saved_games(games, fresh, self.spec, len(self.bots), longest, exploits=self.exploited is not None)
        if not past:  # a checkpoint of an earlier version
            met = np.where(games["kind"] == PAST_SELF, 0, NOBODY).astype(np.int8)
            past = {"past_met": met, "past_current": np.zeros(1, np.int64)}
        check_past_selves(past, games, dict(self.network.named_parameters()))
        self.trajectory.load(games)
        self.past_selves.load(past)
        for row, blob in enumerate(blobs):
            self.tables.load(row, blob.tobytes())
        over = np.flatnonzero(self.tables.legal_bits == 0)
        require(not len(over), "self-play tables", "games in progress", f"a game that is over at table {over[:1]}")
        self.owner, self.kind = state["owner"].astype(np.int8), state["kind"].astype(np.int8)
        self.deals, self.takeover_after = state["deals"].astype(np.int64), state["takeover_after"].astype(np.int64)
        self.started, self._idle = int(state["started"][0]), bool(state["started"][1])


class MixedSelfPlay:
    """Self-play worker for several numbers of players: tables for each, which play in turn with parts of one network.

    Args:
      config, worker, workers, device, exploited: arguments of `SelfPlay`.
    """

    def __init__(
        self,
        config: Config,
        worker: int = 0,
        workers: int = 1,
        device: str = "cpu",
        exploited: MakeOpponent | None = None,
    ) -> None:
        counts = config.player_counts()
        self.parts = {p: SelfPlay(config.at_tables_for(p), worker, workers, device, exploited) for p in counts}
        self._largest = self.parts[counts[-1]].network

    def load_weights(self, weights: Mapping[str, Tensor], past_self: Mapping[str, Tensor] | None = None) -> None:
        """Load new weights of the network for the largest number of players, and of a past network."""
        for players, part in self.parts.items():
            theirs = self._largest.weights_for(players, past_self) if past_self is not None else None
            part.load_weights(self._largest.weights_for(players, weights), theirs)

    def play(self, request: PlayRequest) -> PlayResult:
        """See `SelfPlay.play`; the games are shared equally among the numbers of players."""
        request = replace(request, games=-(-request.games // len(self.parts)))
        results = [part.play(request) for part in self.parts.values()]
        joined = PlayResult(request.version)
        for name in ("episodes", "opponents", "points", "records", "rollouts"):
            setattr(joined, name, [item for result in results for item in getattr(result, name)])
        for name in ("decisions", "table_steps", "seconds", "env_seconds"):
            setattr(joined, name, sum(getattr(result, name) for result in results))
        joined.megabytes = results[-1].megabytes
        joined.clock = Clock(**{name: sum(getattr(r.clock, name) for r in results) for name in vars(joined.clock)})
        return joined

    def begin_at(self, game: int) -> None:
        """See `SelfPlay.begin_at`."""
        for part in self.parts.values():
            part.begin_at(game)

    def state(self) -> dict[str, NDArray[Any]]:
        """See `SelfPlay.state`."""
        return {f"{p}.{name}": array for p, part in self.parts.items() for name, array in part.state().items()}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """See `SelfPlay.load`."""
        for players, part in self.parts.items():
            prefix = f"{players}."
            part.load({name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)})


def make_worker(
    config: Config, worker: int = 0, workers: int = 1, device: str = "cpu", exploited: MakeOpponent | None = None
) -> SelfPlay | MixedSelfPlay:
    """Make a worker for the number of players of the run, or for all numbers if the run mixes several."""
    kind = MixedSelfPlay if len(config.player_counts()) > 1 else SelfPlay
    return kind(config, worker, workers, device, exploited)
