"""Self-play: many tables in lockstep, every decision of the current network by search, whole games as results.

A worker keeps its tables from call to call: `play` goes on until enough games have ended, the others wait where they
are. Nothing here knows who runs the workers.
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
from muzero.config import Config, require
from muzero.data.targets import Episode, pack_legal
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs.memory import give_back_memory, resident_megabytes
from muzero.search.backend import resolve_backend
from muzero.search.planner import Clock, Plan, Planner, by_seat
from muzero.selfplay.opponents import BOTS, NEVER, PAST_SELF, SELF, OpponentMix

_USUAL_GAME = 512  # decisions; room for longer ones is made when they come


@dataclass(frozen=True)
class PlayRequest:
    """What a worker is to do.

    Attributes:
      version: of the weights.
      episodes: games to finish.
      moves: steps to make instead, if not 0.
      simulations: per decision.
      temperature: of the choice among visits (puct).
      mixture: of opponents, for games that begin.
      replays: games to keep as replays, of those that end.
    """

    version: int
    episodes: int
    moves: int
    simulations: int
    temperature: float
    mixture: OpponentMix
    replays: int = 0


@dataclass
class PlayResult:
    """What came of it.

    Attributes:
      version: of the weights, as ordered.
      episodes: games that ended.
      opponents: kind of opponent in each.
      points: the agent's share of the win in each (0.5 in self-play means nothing).
      decisions: made by the current network.
      steps: of all tables.
      seconds: of the whole call.
      env_seconds: in the environment, bots included.
      clock: of the searches.
      megabytes: resident in the worker's process.
      replays: of the first games that ended.
    """

    version: int = 0
    episodes: list[Episode] = field(default_factory=list)
    opponents: list[int] = field(default_factory=list)
    points: list[float] = field(default_factory=list)
    decisions: int = 0
    steps: int = 0
    seconds: float = 0.0
    env_seconds: float = 0.0
    clock: Clock = field(default_factory=Clock)
    megabytes: float = 0.0
    replays: list[GameRecord] = field(default_factory=list)


class TrajectoryBuffer:
    """What has happened at the tables since the oldest game under way began: arrays [time, B, ...]."""

    def __init__(self, tables: env.VecEnv) -> None:
        B, P, A, W = tables.num_envs, tables.num_players, tables.num_actions, tables.width
        self._kinds: dict[str, tuple[Any, tuple[int, ...]]] = {
            "obs": (np.int16, (B, W)),
            "legal": (np.uint64, (B,)),
            "action": (np.int16, (B,)),
            "to_play": (np.int8, (B,)),
            "phase": (np.int8, (B,)),
            "rewards": (np.float32, (B, P)),
            "policy": (np.float32, (B, A)),
            "has_policy": (np.bool_, (B,)),
            "values": (np.float32, (B, P)),
            "raw_values": (np.float32, (B, P)),
        }
        self.time = 0
        self.begun = np.zeros(B, np.int64)  # time of each table's first decision
        # Most games fit, and some of the next ones'; the memory is taken now, not little by little.
        room = min(int(tables.rules["max_decisions"]), _USUAL_GAME) * 5 // 4
        self.arrays = {name: np.full((room, *shape), 0, dtype) for name, (dtype, shape) in self._kinds.items()}

    def append(self, **now: NDArray[Any]) -> None:
        """One step of all tables."""
        if self.time == len(self.arrays["action"]):
            self._make_room()
        for name, array in now.items():
            self.arrays[name][self.time] = array
        self.time += 1

    def _make_room(self) -> None:
        """Forgets what no game under way needs, or doubles the room."""
        oldest = int(self.begun.min())
        self.time -= oldest
        self.begun -= oldest
        enough = oldest >= len(self.arrays["action"]) // 8
        for name, array in self.arrays.items():
            kept = array[oldest : oldest + self.time]
            if not enough:
                self.arrays[name] = np.full((2 * len(array), *array.shape[1:]), 0, array.dtype)
            self.arrays[name][: self.time] = kept  # numpy copies what overlaps

    def take(self, table: int, ranks: NDArray[np.int8], truncated: bool) -> Episode:
        """The game that ended at a table; a new one begins there."""
        part = slice(int(self.begun[table]), self.time)
        self.begun[table] = self.time
        arrays = {name: array[part, table].copy() for name, array in self.arrays.items()}
        last = last_known(arrays["values"]) if truncated else np.zeros(len(ranks), np.float32)
        return Episode(**arrays, ranks=ranks, truncated=truncated, last_values=last)

    def state(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint."""
        oldest = int(self.begun.min())
        kept = {f"record_{name}": array[oldest : self.time].copy() for name, array in self.arrays.items()}
        return {**kept, "record_begun": self.begun - oldest}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continues from a checkpoint."""
        self.begun = state["record_begun"].astype(np.int64)
        self.time = len(state["record_action"])
        for name, (dtype, shape) in self._kinds.items():
            saved = state[f"record_{name}"]
            require(saved.shape[1:] == shape, f"self-play {name}", f"tables of shape {shape}", saved.shape[1:])
            room = max(len(self.arrays[name]), 2 * self.time)
            self.arrays[name] = np.full((room, *shape), 0, dtype)
            self.arrays[name][: self.time] = saved


def deal_seed(config: Config) -> int:
    """Of the deals that are played in training. Seeds of matches are small numbers: their deals must be new to a
    network."""
    return config.seed + (1 << 40)


def last_known(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """values [T, P], NaN where unknown -> [P] the latest of each seat, 0 if there is none.

    A game that is cut off shows all its cards, so its last position is no longer one to ask the network about.
    """
    known = ~np.isnan(values)
    latest = len(values) - 1 - known[::-1].argmax(0)
    found = values[latest, np.arange(values.shape[1])]
    return np.where(known.any(0), found, 0.0).astype(np.float32)


class SelfPlay:
    """A worker.

    Args:
      config: of the run.
      worker, workers: its number, and how many there are.
      device: of its networks.
    """

    def __init__(self, config: Config, worker: int = 0, workers: int = 1, device: str = "cpu") -> None:
        self.config, self.worker, self.workers = config, worker, workers
        self.device = torch.device(device)
        game, count = config.game, config.selfplay.tables // workers
        require(count >= 1, "selfplay.tables", f"at least one for each of {workers} workers", config.selfplay.tables)
        self.tables = env.make(
            game.name, count, game.players, game.rules_for_training(), deal_seed(config), auto_reset=False
        )
        self.spec = GameSpec.of_tables(self.tables)
        self.bots = [self.tables.bot(name) for name in game.bots]
        self.network = Network(self.spec, config.model).to(self.device).eval()
        self.rival = Network(self.spec, config.model).to(self.device).eval()
        self.record = TrajectoryBuffer(self.tables)
        self.started = 0  # games
        self.owner = np.full((count, game.players), SELF, np.int8)  # who sits where
        self.kind = np.full(count, SELF, np.int8)  # of opponent
        self.deals = np.full(count, -1, np.int64)  # the number of each table's deal, -1 if it is not known
        self.takeover_after = np.full(count, NEVER, np.int64)  # decisions after which the network takes all seats
        self._planners: dict[tuple[bool, int], Planner] = {}
        self._idle = True  # no game has begun yet

    def load_weights(self, weights: Mapping[str, Tensor], rival: Mapping[str, Tensor] | None = None) -> None:
        """Takes new weights, and a rival's."""
        self.network.load_state_dict(dict(weights))
        if rival is not None:
            self.rival.load_state_dict(dict(rival))

    def planner(self, simulations: int, rival: bool = False) -> Planner:
        """The search for all tables at once; made once per number of simulations."""
        key = (rival, simulations)
        if key not in self._planners:
            network = self.rival if rival else self.network
            search = replace(self.config.search, simulations=simulations)
            if rival and resolve_backend(network, search) != "native":
                search = replace(search, backend="eager")  # few games of varying number
            self._planners = {k: p for k, p in self._planners.items() if k[0] != rival}
            self._planners[key] = Planner(network, search, self.tables.num_envs)
        return self._planners[key]

    def play(self, orders: PlayRequest) -> PlayResult:
        """Plays until enough games have ended, or enough moves have been made."""
        started, played, tables = perf_counter(), PlayResult(orders.version), self.tables
        planner = self.planner(orders.simulations)
        before = replace(planner.clock)
        if self._idle:
            self._begin(np.arange(tables.num_envs), orders.mixture)
            self._idle = False
        moves = 0
        while moves < orders.moves if orders.moves else len(played.episodes) < orders.episodes:
            self._step(orders, planner, played)
            moves += 1
        after = planner.clock
        played.clock = Clock(**{name: getattr(after, name) - getattr(before, name) for name in vars(after)})
        played.seconds = perf_counter() - started
        give_back_memory()
        played.megabytes = resident_megabytes()
        return played

    def begin_at(self, game: int) -> None:
        """Makes the next game that begins the `game`th, so that deals of earlier workers are not dealt again."""
        self.started = game

    def _begin(self, rows: NDArray[np.int64], mixture: OpponentMix) -> None:
        """Deals new games at some tables and seats the players."""
        P, seed = self.tables.num_players, self.config.seed
        deals = (self.started + np.arange(len(rows))) * self.workers + self.worker
        self.started += len(rows)
        self.tables.reset(deal_seed(self.config), deals=deals.tolist(), tables=rows.tolist())
        for row, deal in zip(rows, deals, strict=True):
            kind = mixture.draw((seed, int(deal)))
            self.kind[row] = kind
            self.deals[row] = deal
            self.takeover_after[row] = mixture.takeover_decision(kind, (seed, int(deal)))
            self.owner[row] = mixture.seat(kind, int(deal) // self.workers % P, P, (seed, int(deal)))

    def _step(self, orders: PlayRequest, planner: Planner, played: PlayResult) -> None:
        tables = self.tables
        B, P, A = tables.num_envs, tables.num_players, tables.num_actions
        rows = np.arange(B)
        self.owner[self.record.time - self.record.begun >= self.takeover_after] = SELF
        owner = self.owner[rows, tables.to_play]
        keys = tables.decision_keys(self.config.seed + 1)
        actions = np.full(B, env.SKIP, np.int64)
        policy = np.zeros((B, A), np.float32)
        values, raw_values = np.full((2, B, P), np.nan, np.float32)

        own = np.flatnonzero(owner == SELF)
        if len(own):
            plan = self._plan(planner, own, keys, orders.temperature)
            actions[own], policy[own] = plan.actions, plan.policy
            values[own] = by_seat(plan.values, tables.to_play[own], P, self.spec.private)
        theirs = np.flatnonzero(owner == PAST_SELF)
        if len(theirs):
            actions[theirs] = self._plan(
                self.planner(orders.simulations, rival=True), theirs, keys, orders.temperature
            ).actions
        started = perf_counter()
        for kind in np.unique(owner[owner >= 0]):
            moves = tables.bot_actions([self.bots[kind]] * P, self.config.seed)
            actions = np.where(owner == kind, moves, actions)
        seen: dict[str, NDArray[Any]] = {
            "obs": tables.obs.copy(),
            "legal": pack_legal(tables.legal),
            "to_play": tables.to_play.copy(),
            "phase": tables.phase.copy(),
        }
        tables.step(actions)
        self.record.append(
            **seen,
            action=actions,
            rewards=tables.rewards,
            policy=policy,
            has_policy=owner == SELF,
            values=values,
            raw_values=raw_values,
        )
        played.decisions += len(own)
        played.steps += B
        over = np.flatnonzero(tables.done)
        if len(over):
            self._collect(over, played)
            self._keep_replays(over, orders.replays, played)
            self._begin(over, orders.mixture)
        played.env_seconds += perf_counter() - started

    def _plan(self, planner: Planner, rows: NDArray[np.int64], keys: NDArray[np.uint64], temperature: float) -> Plan:
        t = self.tables
        return planner.plan(t.obs[rows], pack_legal(t.legal[rows]), t.phase[rows], keys[rows], temperature)

    def _collect(self, over: NDArray[np.int64], played: PlayResult) -> None:
        """Games that ended."""
        tables = self.tables
        for row in over:
            ranks, kind = tables.ranks[row].copy(), int(self.kind[row])
            episode = self.record.take(int(row), ranks=ranks, truncated=bool(tables.truncated[row]))
            best = ranks == 1
            played.episodes.append(episode)
            played.opponents.append(kind)
            met = kind == PAST_SELF or kind >= 0
            played.points.append(float((best / best.sum())[self.owner[row] == SELF].item()) if met else 0.5)

    def _keep_replays(self, over: NDArray[np.int64], most: int, played: PlayResult) -> None:
        """Of games that have just ended, the last in `played`, until there are enough."""
        for row, episode in zip(over.tolist(), played.episodes[-len(over) :], strict=True):
            if len(played.replays) < most:
                played.replays.append(self._replay(row, episode))

    def _replay(self, row: int, episode: Episode) -> GameRecord:
        names = {SELF: "network", PAST_SELF: "past network"}
        if self.kind[row] == BOTS:
            names[SELF] = "bot, then network"
        who = [names[o] if o < 0 else f"bot:{self.config.game.bots[o]}" for o in self.owner[row].tolist()]
        moves = episode.action.tolist()
        seed, deal = deal_seed(self.config), int(self.deals[row])
        return GameRecord.of(self.tables, row, seed=seed, deal=deal, agents=who, actions=moves)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything of a worker but its weights, for a checkpoint."""
        blobs = [self.tables.save(row) for row in range(self.tables.num_envs)]
        return {
            **self.record.state(),
            "tables": np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1).copy(),
            "owner": self.owner.copy(),
            "kind": self.kind.copy(),
            "deals": self.deals.copy(),
            "takeover_after": self.takeover_after.copy(),
            "started": np.array([self.started, self._idle]),
        }

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continues from a checkpoint."""
        blobs = state["tables"]
        require(len(blobs) == self.tables.num_envs, "self-play tables", str(self.tables.num_envs), len(blobs))
        self.record.load(state)
        for row, blob in enumerate(blobs):
            self.tables.load(row, blob.tobytes())
        self.owner, self.kind = state["owner"].astype(np.int8), state["kind"].astype(np.int8)
        self.deals, self.takeover_after = state["deals"].astype(np.int64), state["takeover_after"].astype(np.int64)
        self.started, self._idle = int(state["started"][0]), bool(state["started"][1])


class MixedSelfPlay:
    """A worker for several numbers of players: tables for each, one after the other, with parts of the same weights.

    Args:
      config, worker, workers, device: as of `SelfPlay`.
    """

    def __init__(self, config: Config, worker: int = 0, workers: int = 1, device: str = "cpu") -> None:
        counts = config.player_counts()
        self.parts = {p: SelfPlay(config.at_tables_for(p), worker, workers, device) for p in counts}
        self._largest = self.parts[counts[-1]].network

    def load_weights(self, weights: Mapping[str, Tensor], rival: Mapping[str, Tensor] | None = None) -> None:
        """Takes new weights for the most players, and a rival's."""
        for players, part in self.parts.items():
            theirs = self._largest.weights_for(players, rival) if rival is not None else None
            part.load_weights(self._largest.weights_for(players, weights), theirs)

    def play(self, orders: PlayRequest) -> PlayResult:
        """See `SelfPlay.play`; each number of players has its share of the games."""
        orders = replace(orders, episodes=-(-orders.episodes // len(self.parts)))
        results = [part.play(orders) for part in self.parts.values()]
        joined = PlayResult(orders.version)
        for name in ("episodes", "opponents", "points", "replays"):
            setattr(joined, name, [item for played in results for item in getattr(played, name)])
        for name in ("decisions", "steps", "seconds", "env_seconds"):
            setattr(joined, name, sum(getattr(played, name) for played in results))
        joined.megabytes = results[-1].megabytes
        joined.clock = Clock(**{name: sum(getattr(p.clock, name) for p in results) for name in vars(joined.clock)})
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


def make_worker(config: Config, worker: int = 0, workers: int = 1, device: str = "cpu") -> SelfPlay | MixedSelfPlay:
    """A worker for the numbers of players that the run mixes."""
    kind = MixedSelfPlay if len(config.player_counts()) > 1 else SelfPlay
    return kind(config, worker, workers, device)
