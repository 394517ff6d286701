"""Replay buffer: a flat ring of decisions, sampled by phase and by priority.

Episodes lie in the ring one after the other and are never split. An episode that does not fit before the end of the
ring is stored at its beginning, and the oldest episodes are evicted as a whole to make room. The buffer is
deterministic: the same calls give the same bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config import Config
from muzero.config.fields import require
from muzero.data.match_table import match_table
from muzero.data.returns import lambda_returns, n_step_returns
from muzero.data.sum_tree import FAN, SumTree, pick
from muzero.data.targets import FRAMES, Moves, Targets, unroll
from muzero.data.trajectory import (
    DECISION,
    EPISODE,
    MAX_ACTIONS,
    RING,
    Episode,
    Field,
    allocate,
    require_array,
    require_range,
    ring_rows,
    row_bytes,
    schema,
)

_TYPICAL_RATE = 0.05  # rate at which the typical priority follows the priorities of batches
_RETURNED = ("rewards", "luck", "values", "last_values", "explored")  # fields that value targets are made of
_EVICTED = -1  # stamp of rows without a decision


@dataclass(frozen=True)
class Batch(Targets):
    """B windows to learn from: targets (see `Targets`), observations, and the rows that priorities belong to.

    Attributes:
      obs: int16 [B, K+1, W] observations of the players to move; past the end of the episode, the last one repeated.
      hidden: int8 [B, K+1, S] cards in slots that the player to move cannot see, as outcome codes; 0 elsewhere. Past
        the end, the last ones repeated. Labels of card beliefs: nothing but their loss may read them.
      weights: float32 [B] importance weights, which undo the priorities; 1 for the stored position that priorities
        have made the least likely to be drawn.
      index: int64 [B] row of the window's first position in the ring.
      stamp: int64 [B] number of the episode that the row holds.
    """

    obs: NDArray[np.int16]
    hidden: NDArray[np.int8]
    weights: NDArray[np.float32]
    index: NDArray[np.int64]
    stamp: NDArray[np.int64]


@dataclass(frozen=True)
class Positions:
    """n stored positions, to be searched again (reanalysis).

    Attributes:
      obs: int16 [n, W] observations of the players to move.
      legal: uint64 [n] packed masks of the legal actions, one bit per action.
      phase: int8 [n] phases of the game.
      to_play: int8 [n] seats of the players to move.
      index: int64 [n] row of each position in the ring.
      stamp: int64 [n] number of the episode that the row holds.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.uint64]
    phase: NDArray[np.int8]
    to_play: NDArray[np.int8]
    index: NDArray[np.int64]
    stamp: NDArray[np.int64]


def bytes_needed(
    capacity: int, num_players: int, width: int, num_actions: int, num_phases: int, num_slots: int = 0
) -> int:
    """Bytes of a replay buffer for `capacity` decisions, a multiple of `FAN`."""
    row = row_bytes(num_players, width, num_actions, num_slots) + np.dtype(np.int64).itemsize  # a row and its stamp
    return row * capacity + SumTree.bytes_needed(capacity, num_phases)


def megabytes_needed(
    decisions: int, num_players: int, width: int, num_actions: int, num_phases: int, num_slots: int = 0
) -> float:
    """Megabytes of a replay buffer that holds this many decisions."""
    rounded = -(-decisions // FAN) * FAN
    return bytes_needed(rounded, num_players, width, num_actions, num_phases, num_slots) / 2**20


class ReplayBuffer:
    """Ring of decisions with a memory budget.

    Args:
      num_players, width, num_actions, num_phases: numbers of players, integers of an observation, actions and phases.
      frame: order of the seats in the network's numbers, "root" or "mover".
      moves: moves that a search knows of the rules.
      config: settings of the run, whose defaults and ranges muzero/config/sections.py declares: those of `replay`,
        `learner.unroll` (steps of a window after its first position, K), `learner.td_steps` and
        `learner.td_lambda` (returns), `search.discount` (of the returns, per decision) and `game.utility`.
      num_slots: number of slots of all players whose hidden cards are stored.
      epsilon: number that is added to every priority.

    Attributes:
      beta: exponent of the importance weights; 1 corrects all bias of the sampling. May be changed.
    """

    def __init__(
        self,
        *,
        num_players: int,
        width: int,
        num_actions: int,
        num_phases: int,
        frame: str,
        moves: Moves,
        config: Config,
        num_slots: int = 0,
        epsilon: float = 1e-3,
    ) -> None:
        for name, size in (("num_players", num_players), ("width", width), ("num_phases", num_phases)):
            require(size >= 1, f"replay.{name}", "1 or more", size)
        require(1 <= num_actions <= MAX_ACTIONS, "replay.num_actions", f"1 to {MAX_ACTIONS}", num_actions)
        require(frame in FRAMES, "replay.frame", f"one of {', '.join(FRAMES)}", frame)
        require(epsilon > 0, "replay.epsilon", "more than 0", epsilon)
        for section in (config.replay, config.learner, config.search):
            section.check()
        replay = config.replay
        self.num_players, self.width = num_players, width
        self.num_actions, self.num_phases, self.num_slots = num_actions, num_phases, num_slots
        self.unroll, self.steps = config.learner.unroll, config.learner.td_steps
        self.td_lambda, self.moves = config.learner.td_lambda, moves
        self.discount, self.frame, self.epsilon = config.search.discount, frame, epsilon
        self.keep_share, self.keep_at_least = replay.keep_share, replay.keep_at_least
        self._match = match_table(config.game)
        self.stratify, self.alpha, self.beta = replay.stratify, replay.alpha, replay.beta

        def needed(nodes: int) -> int:
            return bytes_needed(nodes * FAN, num_players, width, num_actions, num_phases, num_slots)

        budget = int(replay.megabytes * 2**20)
        nodes = bisect_right(range(1, 2 + budget // FAN), budget, key=needed)
        least = f"at least {needed(1) / 2**20:.3g}, the room of {FAN} decisions"
        require(nodes >= 1, "replay.megabytes", least, replay.megabytes)
        self.capacity = nodes * FAN
        self._rows = allocate((DECISION, EPISODE, RING), (self.capacity,), num_players, width, num_actions, num_slots)
        self._stamp = np.full(self.capacity, _EVICTED)
        self._tree = SumTree(self.capacity, num_phases, self._rows["phase"])
        self._head = 0  # row of the next episode, if it fits before the end of the ring
        self._tail = 0  # first row of the oldest episode
        self._size = 0  # number of decisions stored
        self._count = np.zeros(num_phases, np.int64)  # number of decisions stored, by phase
        self._episodes = 0  # number of episodes stored
        self._added = 0  # number of episodes ever added
        self._seen = 0  # number of decisions ever added
        self._typical = 1.0  # running mean of the priorities of recent batches

    def __len__(self) -> int:
        """Number of decisions stored."""
        return self._size

    @property
    def episodes(self) -> int:
        """Number of episodes stored."""
        return self._episodes

    @property
    def fill(self) -> float:
        """Share of the capacity that is in use."""
        return self._size / self.capacity

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(array.nbytes for array in self._rows.values()) + self._stamp.nbytes + self._tree.nbytes

    def ready(self, warm_up: int) -> bool:
        """Whether at least `warm_up` decisions have been added and some are stored."""
        return self._size > 0 and self._seen >= warm_up

    # ---- adding ------------------------------------------------------------------------------------------------

    def add(self, episode: Episode) -> int:
        """Store an episode, evicting the oldest episodes as needed. Returns its stamp."""
        self._check(episode)
        T = len(episode)
        if self._head + T > self.capacity:
            while self._episodes and self._tail >= self._head:
                self._evict()
            self._head = 0
        while self._episodes and self._head <= self._tail < self._head + T:
            self._evict()
        here = slice(self._head, self._head + T)
        targets = self._returns({name: getattr(episode, name) for name in _RETURNED})
        for name, array in ring_rows(episode, targets, self._head).items():
            self._rows[name][here] = array
        stamp = self._added
        self._stamp[here] = stamp
        self._tree.set(here, self._weight(np.full(T, self._typical)))
        self._head += T
        self._size += T
        self._count += np.bincount(episode.phase, minlength=self.num_phases)
        self._episodes += 1
        self._added += 1
        self._seen += T
        while (
            self.keep_share
            and self._episodes > 1
            and self._size > max(self.keep_at_least, self.keep_share * self._seen)
        ):
            self._evict()
        return stamp

    def _returns(self, of: Mapping[str, NDArray[Any]], end: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Value targets [T, P] of decisions whose fields `_RETURNED` are given; `end` as in `n_step_returns`."""
        given = of["rewards"] - of["luck"], of["values"], of["last_values"]
        if self.td_lambda < 1:
            return lambda_returns(*given, self.td_lambda, self.discount, end, of["explored"])
        return n_step_returns(*given, self.steps, self.discount, end, of["explored"])

    def _check(self, episode: Episode) -> None:
        """Refuse an episode that is broken, of another game, or longer than the ring."""
        episode.check()
        sizes = {"num_players": episode.num_players, "width": episode.obs.shape[1]}
        sizes |= {"num_actions": episode.policy.shape[1], "num_slots": episode.hidden.shape[1]}
        for name, size in sizes.items():
            require(size == getattr(self, name), f"episode.{name}", str(getattr(self, name)), size)
        require_range("episode.phase", episode.phase, self.num_phases)
        longest = f"at most {self.capacity} decisions, the capacity of the replay buffer"
        require(len(episode) <= self.capacity, "episode", longest, f"{len(episode)} decisions")

    def _evict(self) -> None:
        """Remove the oldest episode."""
        gone = slice(self._tail, int(self._rows["end"][self._tail]))
        self._stamp[gone] = _EVICTED
        self._tree.set(gone, 0.0)
        self._size -= gone.stop - gone.start
        self._count -= np.bincount(self._rows["phase"][gone], minlength=self.num_phases)
        self._episodes -= 1
        above = gone.stop < self.capacity and self._stamp[gone.stop] != _EVICTED
        self._tail = gone.stop if above else 0

    def _weight(self, priority: NDArray[np.float64]) -> NDArray[np.float32]:
        """Sampling weights of rows with these priorities: [n] -> [n]."""
        weight: NDArray[np.float32] = ((priority + self.epsilon) ** self.alpha).astype(np.float32)
        return weight

    # ---- sampling ----------------------------------------------------------------------------------------------

    def sample(self, batch: int, rng: np.random.Generator) -> Batch:
        """Draw windows, evenly spread over the distribution (one from each of `batch` parts), in random order."""
        require(self._size >= 1, "replay", "something to sample from", "no decisions")
        rows = self._rows
        totals, least = self._tree.totals()
        present = totals > 0
        even = self.stratify * present / present.sum()
        chance = even + (1 - self.stratify) * totals / totals.sum()  # share of each phase in the draws
        wanted = even + (1 - self.stratify) * self._count / self._size  # its share if there were no priorities
        place = (rng.permutation(batch) + rng.random(batch)) / batch
        phase, mass = pick(np.broadcast_to(chance, (batch, self.num_phases)), place)
        index = self._tree.find(phase, mass / chance[phase] * totals[phase])
        # Importance weights undo the priorities, inside phases and among them, not the even shares of the phases.
        each = wanted[present] / self._count[present] * totals[present] / chance[present]
        correction = np.zeros(self.num_phases)
        correction[present] = each / (each / least[present]).max()  # 1 for the least likely position
        luck = rng.random((batch, self.unroll + 1))
        shares = self._match.shares(rows["final_scores"][index]) if self._match is not None else None
        steps, end = index[:, None] + np.arange(self.unroll + 1), rows["end"][index][:, None]
        return Batch(
            **vars(unroll(rows, index, self.frame, self.moves, luck, shares)),
            obs=rows["obs"].take(np.minimum(steps, end - 1), 0),
            hidden=rows["hidden"].take(np.minimum(steps, end - 1), 0),
            weights=((correction[phase] / self._tree.weights[index]) ** self.beta).astype(np.float32),
            index=index,
            stamp=self._stamp[index],
        )

    def update(self, index: NDArray[np.int64], stamp: NDArray[np.int64], priority: NDArray[np.floating[Any]]) -> None:
        """Set the priorities [n] of positions, except those that have been overwritten since they were drawn."""
        self._require_index(index, stamp)
        require(priority.shape == index.shape, "priority", f"shape {index.shape}", priority.shape)
        good = bool((np.isfinite(priority) & (priority >= 0)).all())
        require(good, "priority", "finite numbers, 0 or more", "others")
        fresh = self._stamp[index] == stamp
        index, priorities = index[fresh], priority[fresh].astype(np.float64)
        if len(priorities):
            self._typical += _TYPICAL_RATE * (float(priorities.mean()) - self._typical)
        self._tree.set(index, self._weight(priorities))

    def sample_positions(self, n: int, rng: np.random.Generator) -> Positions:
        """Draw n different positions, all with the same probability."""
        require(0 <= n <= self._size, "n", f"0 to {self._size}, the decisions stored", n)
        index = self._place(rng.choice(self._size, n, replace=False))
        rows = self._rows
        return Positions(
            obs=rows["obs"][index],
            legal=rows["legal"][index],
            phase=rows["phase"][index],
            to_play=rows["to_play"][index],
            index=index,
            stamp=self._stamp[index],
        )

    def refresh(
        self,
        index: NDArray[np.int64],
        stamp: NDArray[np.int64],
        policy: NDArray[np.float32],
        values: NDArray[np.float32],
    ) -> None:
        """Replace the search results of positions, except those that have been overwritten since they were drawn.

        Priorities do not change, nor whether a position has a policy target.

        Args:
          index, stamp: [n] rows and numbers of episodes, as in `Positions`.
          policy: [n, A] new policy targets.
          values: [n, P] new search values by seat, NaN where unknown.
        """
        self._require_index(index, stamp)
        for name, array, width in (("policy", policy, self.num_actions), ("values", values, self.num_players)):
            require(array.shape == (len(index), width), name, f"shape {(len(index), width)}", array.shape)
        require(bool(np.isfinite(policy).all()), "policy", "finite numbers", "NaN or infinity")
        require(not np.isinf(values).any(), "values", "numbers or NaN", "infinity")
        fresh = self._stamp[index] == stamp
        index = index[fresh]
        if len(index) == 0:
            return
        rows = self._rows
        rows["policy"][index], rows["values"][index] = policy[fresh], values[fresh]
        # All rows of the episodes concerned, one episode after the other, and the end of each episode in that order.
        begin, some = np.unique(rows["begin"][index], return_index=True)
        length = rows["end"][index[some]] - begin
        end = np.repeat(np.cumsum(length), length)
        whole = np.arange(len(end)) - end + np.repeat(begin + length, length)
        rows["returns"][whole] = self._returns({name: rows[name][whole] for name in _RETURNED}, end)

    def _require_index(self, index: NDArray[np.int64], stamp: NDArray[np.int64]) -> None:
        require(index.ndim == 1 and stamp.shape == index.shape, "stamp", f"shape {index.shape}", stamp.shape)
        require_range("index", index, self.capacity)
        require(bool((stamp >= 0).all()), "stamp", "0 or more", stamp[stamp < 0][:5].tolist())

    def _place(self, age: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of decisions, given by age: 0 is the oldest."""
        if self._tail < self._head:
            return self._tail + age
        above = self._size - self._head  # number of decisions from the tail up to the end of the ring
        return np.where(age < above, self._tail + age, age - above)

    # ---- checkpoints -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy of the complete state as plain arrays, decisions in order of age."""
        used = self._place(np.arange(self._size))
        begin = used[self._rows["begin"][used] == used]
        kept = {f.name: self._rows[f.name][used] for f in _saved_fields()}
        kept |= {"weight": self._tree.weights[used], "length": self._rows["end"][begin] - begin}
        kept |= {"head": np.array(self._head), "tail": np.array(self._tail), "added": np.array(self._added)}
        kept |= {"seen": np.array(self._seen), "typical": np.array(self._typical)}
        return kept | {name: np.array(value) for name, value in self._settings().items()}

    def load(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore a `state` of a buffer with the same settings; an error names the field that does not fit."""
        self._check_state(state)
        self._stamp[:] = _EVICTED
        self._tree.set(slice(0, self.capacity), 0.0)
        self._head, self._tail, self._added, self._seen = (int(state[n]) for n in ("head", "tail", "added", "seen"))
        self._typical = float(state["typical"])
        length = state["length"]
        self._size, self._episodes = int(length.sum()), len(length)
        self._count = np.bincount(state["phase"], minlength=self.num_phases)
        used = self._place(np.arange(self._size))
        begin = self._place(np.cumsum(length) - length)
        for f in _saved_fields():
            self._rows[f.name][used] = state[f.name]
        self._rows["begin"][used] = np.repeat(begin, length)
        self._rows["end"][used] = np.repeat(begin + length, length)
        self._stamp[used] = np.repeat(self._added - self._episodes + np.arange(self._episodes), length)
        self._tree.set(used, state["weight"])

    def _settings(self) -> dict[str, int | float]:
        """Settings on which the stored rows depend."""
        sizes = (
            "num_players",
            "width",
            "num_actions",
            "num_phases",
            "num_slots",
            "capacity",
            "keep_share",
            "keep_at_least",
        )
        return {
            f"setting.{name}": getattr(self, name)
            for name in (*sizes, "steps", "td_lambda", "discount", "alpha", "epsilon")
        }

    def _check_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Refuse anything but a `state` of a buffer with these settings; the error names the field."""
        settings, scalars = self._settings(), ("head", "tail", "added", "seen", "typical")
        names = {*(f.name for f in _saved_fields()), "weight", "length", *scalars, *settings}
        require(set(state) == names, "state", "exactly the fields of a replay buffer", sorted(set(state) ^ names))
        for name in (*scalars, *settings):
            require(state[name].shape == (), f"state.{name}", "one number", state[name])
        for name, expected in settings.items():
            require(state[name] == expected, f"state.{name}", str(expected), state[name])
        n, length = len(state["weight"]), state["length"]
        for f in _saved_fields():
            shape = f.shape(self.num_players, self.width, self.num_actions, self.num_slots)
            require_array(f"state.{f.name}", state[f.name], f.dtype, (n, *shape))
        require_array("state.weight", state["weight"], np.dtype(np.float32), (n,))
        require_array("state.length", length, np.dtype(np.int64), (len(length),))
        require_range("state.action", state["action"], self.num_actions)
        require_range("state.to_play", state["to_play"], self.num_players)
        require_range("state.phase", state["phase"], self.num_phases)
        good = bool((np.isfinite(state["weight"]) & (state["weight"] > 0)).all())
        require(good, "state.weight", "finite numbers, more than 0", "others")
        whole = bool((length >= 1).all()) and int(length.sum()) == n
        require(whole, "state.length", f"lengths of episodes with {n} decisions in all", length)
        require(int(state["added"]) >= len(length), "state.added", f"at least {len(length)}", state["added"])
        require(int(state["seen"]) >= n, "state.seen", f"at least {n}, the decisions stored", state["seen"])
        require(0 <= float(state["typical"]) < np.inf, "state.typical", "0 or more", state["typical"])
        # Whole episodes fill the rows from the tail up to the head, perhaps by way of the end of the ring.
        head, tail = int(state["head"]), int(state["tail"])
        above = n if tail < head else n - head
        whole = tail + n == head if tail < head else above in np.cumsum(length) or n == head == tail == 0
        fits = 0 <= tail <= tail + above <= self.capacity and 0 <= head <= self.capacity
        require(whole and fits, "state.head", f"an end of the {n} decisions that begin at {tail}", head)


def _saved_fields() -> tuple[Field, ...]:
    """Fields that are saved for each decision; `begin` and `end` follow from the lengths of the episodes."""
    return tuple(f for f in schema(DECISION, EPISODE, RING) if f.name not in ("begin", "end"))
