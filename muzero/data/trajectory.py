"""Trajectories: the one declaration of what is stored about a decision and an episode, and the arrays made from it.

`Episode` declares every field once: name, type, shape, meaning. The buffer that self-play writes to
(`TrajectoryBuffer`) and the rows of the replay buffer (`allocate`, `ring_rows`) are made from that declaration. A new
field is therefore one new line in `Episode`, plus the code that computes it and the code that reads it.

Players are listed by seat. Shapes: T decisions, B tables, P players, W numbers in an observation, A actions, S slots of
all players, counted from the player to move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config.fields import require
from muzero.data.returns import latest_values

DECISION, EPISODE, RING = "decision", "episode", "ring"
"""Scopes of a field: one value per decision, one per episode, or added when an episode enters the replay buffer."""

REPEATED, ZERO, RULES, UNUSED = "repeated", "zero", "rules", "unused"
"""Content of a field past the end of an episode, in a training window that reaches past it; "rules": as the phase table
says, which is what a search goes on with."""

MAX_ACTIONS = 64  # number of bits of a packed legal mask
_POLICY_TOLERANCE = 1e-3  # accepted distance of a policy's sum from 1
_USUAL_LENGTH = 512  # usual number of decisions of a game; the buffer grows when a game is longer


# ---- the schema ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """Declaration of one field.

    Attributes:
      name: name of the array.
      scope: scope of the field, DECISION, EPISODE or RING.
      dtype: type of its numbers.
      dims: letters of its dimensions, out of P, W, A and S; "" for one number.
      meaning: description in one line, for people.
      past_end: content past the end of an episode, REPEATED, ZERO, RANDOM or UNUSED.
      may_be_nan: whether NaN stands for an unknown number.
    """

    name: str
    scope: str
    dtype: np.dtype[Any]
    dims: str
    meaning: str
    past_end: str
    may_be_nan: bool = False

    def shape(self, num_players: int, width: int, num_actions: int, num_slots: int = 0) -> tuple[int, ...]:
        """Shape of one decision's (or one episode's) part of the array."""
        sizes = {"P": num_players, "W": width, "A": num_actions, "S": num_slots}
        return tuple(sizes[letter] for letter in self.dims)


def _decision(dtype: type[np.generic], dims: str, meaning: str, past_end: str, nan: bool = False) -> dict[str, Any]:
    return {"declared": (DECISION, np.dtype(dtype), dims, meaning, past_end, nan)}


def _episode(dtype: type[np.generic], dims: str, meaning: str, past_end: str) -> dict[str, Any]:
    return {"declared": (EPISODE, np.dtype(dtype), dims, meaning, past_end)}


@dataclass(frozen=True)
class Episode:
    """One game, from its first decision to its end or to the decision at which it was truncated.

    Arrays are [T, ...] for fields of decisions and [...] for fields of the episode. `has_policy` is False for moves of
    bots and past networks, which are no policy targets; `values` are then NaN. `last_values` are the values of the
    position after the last decision if the game was truncated, else zeros.
    """

    obs: NDArray[np.int16] = field(metadata=_decision(np.int16, "W", "observation of the player to move", REPEATED))
    legal: NDArray[np.uint64] = field(metadata=_decision(np.uint64, "", "legal actions, one bit each", UNUSED))
    action: NDArray[np.int16] = field(metadata=_decision(np.int16, "", "action taken", RULES))
    to_play: NDArray[np.int8] = field(metadata=_decision(np.int8, "", "seat of the player to move", RULES))
    phase: NDArray[np.int8] = field(metadata=_decision(np.int8, "", "kind of decision", RULES))
    rewards: NDArray[np.float32] = field(metadata=_decision(np.float32, "P", "rewards that the action brought", ZERO))
    policy: NDArray[np.float32] = field(metadata=_decision(np.float32, "A", "policy target of the search", ZERO))
    has_policy: NDArray[np.bool_] = field(metadata=_decision(np.bool_, "", "the current network searched here", ZERO))
    values: NDArray[np.float32] = field(metadata=_decision(np.float32, "P", "search values, or NaN", UNUSED, True))
    luck: NDArray[np.float32] = field(metadata=_decision(np.float32, "P", "luck of the event after the action", UNUSED))
    explored: NDArray[np.bool_] = field(metadata=_decision(np.bool_, "", "the action was drawn at random", ZERO))
    outcome: NDArray[np.int8] = field(metadata=_decision(np.int8, "", "chance event after the action, 0: none", ZERO))
    hidden: NDArray[np.int8] = field(metadata=_decision(np.int8, "S", "cards that the mover cannot see", REPEATED))
    scores: NDArray[np.int32] = field(metadata=_decision(np.int32, "P", "points before the action", UNUSED))
    ranks: NDArray[np.int8] = field(metadata=_episode(np.int8, "P", "1 is best, ties share the better rank", REPEATED))
    truncated: bool = field(metadata=_episode(np.bool_, "", "cut off before its end; ranks are void", REPEATED))
    last_values: NDArray[np.float32] = field(metadata=_episode(np.float32, "P", "values after truncation", UNUSED))
    final_scores: NDArray[np.int32] = field(metadata=_episode(np.int32, "P", "points at the end", UNUSED))

    def __len__(self) -> int:
        return len(self.action)

    @property
    def num_players(self) -> int:
        """Number of players, P."""
        return len(self.ranks)

    def check(self) -> None:
        """Refuse arrays that cannot be a game; the error names the field."""
        for name in ("action", "ranks"):
            require(getattr(self, name).ndim == 1, f"episode.{name}", "one dimension", getattr(self, name).shape)
        for name in ("obs", "policy"):
            require(getattr(self, name).ndim == 2, f"episode.{name}", "two dimensions", getattr(self, name).shape)
        require(self.hidden.ndim == 2, "episode.hidden", "two dimensions", self.hidden.shape)
        T, P, W, A = len(self), self.num_players, self.obs.shape[1], self.policy.shape[1]
        require(T >= 1, "episode.action", "at least one decision", T)
        require(P >= 1, "episode.ranks", "at least one player", P)
        require(1 <= A <= MAX_ACTIONS, "episode.policy", f"1 to {MAX_ACTIONS} actions", A)
        for declared in schema(DECISION, EPISODE):
            name, leading = declared.name, (T,) if declared.scope == DECISION else ()
            array = np.asarray(self.truncated) if name == "truncated" else getattr(self, name)
            require_array(
                f"episode.{name}", array, declared.dtype, (*leading, *declared.shape(P, W, A, self.hidden.shape[1]))
            )
            if declared.may_be_nan:
                require(not np.isinf(array).any(), f"episode.{name}", "numbers or NaN", "infinity")
            elif declared.dtype.kind == "f":
                finite = bool(np.isfinite(array).all())
                require(finite, f"episode.{name}", "finite numbers", "NaN or infinity")
        require_range("episode.to_play", self.to_play, P)
        require_range("episode.action", self.action, A)
        allowed = unpack_legal(self.legal, A)[np.arange(T), self.action]
        require(bool(allowed.all()), "episode.action", "legal actions", f"illegal at {np.flatnonzero(~allowed)[:5]}")
        total = self.policy.sum(1, dtype=np.float64)
        good = (np.abs(total - 1) <= _POLICY_TOLERANCE) | ~self.has_policy
        require(bool(good.all()), "episode.policy", "rows that add up to 1 where there is a policy", total[~good][:5])
        if self.truncated:
            return
        require(not self.last_values.any(), "episode.last_values", "zeros for a game that ended", self.last_values)
        better = (self.ranks[None, :] < self.ranks[:, None]).sum(1)
        require(
            bool((self.ranks == 1 + better).all()),
            "episode.ranks",
            "1 for the best, ties sharing the better rank",
            self.ranks.tolist(),
        )


_RING_FIELDS = (
    Field("returns", RING, np.dtype(np.float32), "P", "value targets", ZERO),
    Field("begin", RING, np.dtype(np.int64), "", "first row of the episode", UNUSED),
    Field("end", RING, np.dtype(np.int64), "", "one past the last row of the episode", UNUSED),
)


def schema(*scopes: str) -> tuple[Field, ...]:
    """Fields of the given scopes, in the order of their declaration."""
    return _fields_of(Episode, scopes)


@cache
def _fields_of(kind: type[Episode], scopes: tuple[str, ...]) -> tuple[Field, ...]:
    declared = (Field(f.name, *f.metadata["declared"]) for f in fields(kind))
    return tuple(f for f in (*declared, *_RING_FIELDS) if f.scope in scopes)


# ---- rows of the replay buffer ---------------------------------------------------------------------------------

Rows = dict[str, NDArray[Any]]
"""Decisions of episodes by field, [N, ...]: each episode in consecutive rows, its EPISODE fields repeated in each."""


def allocate(
    scopes: tuple[str, ...],
    leading: tuple[int, ...],
    num_players: int,
    width: int,
    num_actions: int,
    num_slots: int = 0,
) -> dict[str, NDArray[Any]]:
    """Make zeroed arrays for the fields of the given scopes, with `leading` dimensions in front of each.

    The memory is taken now, not when it is first used: a lack of it shows at the start of a run.
    """
    sizes = num_players, width, num_actions, num_slots
    return {f.name: np.full((*leading, *f.shape(*sizes)), 0, f.dtype) for f in schema(*scopes)}


def row_bytes(num_players: int, width: int, num_actions: int, num_slots: int = 0) -> int:
    """Size of one row of the replay buffer in bytes."""
    sizes = num_players, width, num_actions, num_slots
    return sum(f.dtype.itemsize * int(np.prod(f.shape(*sizes))) for f in schema(DECISION, EPISODE, RING))


def ring_rows(episode: Episode, returns: NDArray[np.float32], begin: int = 0) -> Rows:
    """Rows of one episode in the replay buffer, as views wherever possible.

    Args:
      episode: checked episode. The ranks of a truncated episode are stored as 1, the best, for all players.
      returns: [T, P] value targets.
      begin: row of the episode's first decision.
    """
    T = len(episode)
    rows = {f.name: getattr(episode, f.name) for f in schema(DECISION)}
    once: dict[str, Any] = {f.name: getattr(episode, f.name) for f in schema(EPISODE)}
    if episode.truncated:
        once["ranks"] = np.ones_like(episode.ranks)
    rows |= {name: np.broadcast_to(value, (T, *np.shape(value))) for name, value in once.items()}
    return rows | {"returns": returns, "begin": np.full(T, begin), "end": np.full(T, begin + T)}


# ---- self-play -------------------------------------------------------------------------------------------------


class TrajectoryBuffer:
    """Decisions at B tables in lockstep since the oldest game in progress began: arrays [time, B, ...].

    A step is written in parts, `write` before and after the environment's step, and closed by `advance`.

    Args:
      num_tables, num_players, width, num_actions: numbers of tables, players, integers of an observation, and actions.
      longest: largest number of decisions of a game.
      num_slots: number of slots of all players whose hidden cards are stored.

    Attributes:
      time: number of steps stored, and index of the row being written.
      begun: int64 [B] time of the first decision of the game in progress at each table.
    """

    def __init__(
        self, num_tables: int, num_players: int, width: int, num_actions: int, longest: int, num_slots: int = 0
    ) -> None:
        self._tables, self._sizes = num_tables, (num_players, width, num_actions, num_slots)
        self.time = 0
        self.begun = np.zeros(num_tables, np.int64)
        # There is room for most games and parts of the next ones, so that the memory does not grow little by little.
        self._room = min(longest, _USUAL_LENGTH) * 5 // 4
        self._arrays = allocate((DECISION,), (self._room, num_tables), *self._sizes)
        self._written: set[str] = set()

    def write(self, **now: NDArray[Any]) -> None:
        """Copy fields [B, ...] of the step in progress into their rows."""
        if self.time == self._room:
            self._make_room()
        for name, array in now.items():
            self._arrays[name][self.time] = array
        self._written.update(now)

    def advance(self) -> None:
        """Close the step, all fields of which have been written."""
        missing = self._arrays.keys() - self._written
        assert not missing, f"fields of the step that were not written: {sorted(missing)}"
        self._written.clear()
        self.time += 1

    def latest(self, *names: str) -> dict[str, NDArray[Any]]:
        """Copy of some fields [B, ...] of the latest complete step."""
        return {name: self._arrays[name][self.time - 1].copy() for name in names}

    def _make_room(self) -> None:
        """Drop steps that no game in progress needs; if that frees little, double the room."""
        oldest = int(self.begun.min())
        self.time -= oldest
        self.begun -= oldest
        enough = oldest >= self._room // 8
        for name, array in self._arrays.items():
            kept = array[oldest : oldest + self.time]
            if not enough:
                self._arrays[name] = np.full((2 * self._room, *array.shape[1:]), 0, array.dtype)
            self._arrays[name][: self.time] = kept  # numpy copies correctly where source and target overlap
        self._room = self._room if enough else 2 * self._room

    def take(self, table: int, ranks: NDArray[np.int8], truncated: bool, scores: NDArray[np.int32]) -> Episode:
        """Copy out the game that ended at a table; the table's next game begins here."""
        part = slice(int(self.begun[table]), self.time)
        self.begun[table] = self.time
        arrays = {name: array[part, table].copy() for name, array in self._arrays.items()}
        last = latest_values(arrays["values"]) if truncated else np.zeros(len(ranks), np.float32)
        return Episode(**arrays, ranks=ranks, truncated=truncated, last_values=last, final_scores=scores)

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy of the games in progress, for a checkpoint; to be called between steps."""
        oldest = int(self.begun.min())
        kept = {f"trajectory_{name}": array[oldest : self.time].copy() for name, array in self._arrays.items()}
        return {**kept, "trajectory_begun": self.begun - oldest}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a checkpoint."""
        time = len(state["trajectory_action"])
        room = max(self._room, 2 * time)
        arrays = allocate((DECISION,), (room, self._tables), *self._sizes)
        for name, array in arrays.items():
            saved = state[f"trajectory_{name}"]
            require_array(f"self-play {name}", saved, array.dtype, (time, *array.shape[1:]))
            array[:time] = saved
        self.begun = state["trajectory_begun"].astype(np.int64)
        self.time, self._room, self._arrays = time, room, arrays
        self._written.clear()


# ---- checks and masks ------------------------------------------------------------------------------------------


def require_array(key: str, array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuse anything but an array of this type and shape; the error names the key."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else array
        require(False, key, f"{dtype} {list(shape)}", got)


def require_range(key: str, numbers: NDArray[np.integer[Any]], count: int) -> None:
    """Refuse numbers outside of 0 to count - 1; the error names the key."""
    good = (numbers >= 0) & (numbers < count)
    require(bool(good.all()), key, f"0 to {count - 1}", numbers[~good][:5].tolist())


def pack_legal(legal: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack legal masks: [..., A] -> [...], one bit per action, the first action's the lowest."""
    require(legal.shape[-1] <= MAX_ACTIONS, "actions", f"at most {MAX_ACTIONS}", legal.shape[-1])
    bits = legal.astype(np.uint64) << np.arange(legal.shape[-1], dtype=np.uint64)
    packed: NDArray[np.uint64] = np.bitwise_or.reduce(bits, axis=-1)
    return packed


def unpack_legal(legal: NDArray[np.uint64], num_actions: int) -> NDArray[np.bool_]:
    """Unpack legal masks: [...] -> [..., A]."""
    return (legal[..., None] >> np.arange(num_actions, dtype=np.uint64) & np.uint64(1)).astype(np.bool_)
