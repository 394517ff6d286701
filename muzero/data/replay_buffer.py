"""Memory of what was played: a flat ring of decisions, sampled by phase and by priority.

Episodes lie in the ring one after the other and are never split. One that does not fit before the ring's end starts at
its beginning, and the oldest make room for it as a whole. Same calls, same bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config import require
from muzero.data.targets import (
    FRAMES,
    MAX_ACTIONS,
    Decisions,
    Episode,
    Targets,
    columns,
    require_array,
    require_range,
    returns,
    unpack_legal,
    unroll,
)

FAN = 32  # children of a node of the tree; the ring's capacity is a multiple of it
_RATE = 0.05  # at which the typical priority follows those of the batches
_EVICTED = -1  # stamp of rows that hold nothing


@dataclass(frozen=True)
class Batch(Targets):
    """B windows to learn from; see `Targets` for the rest.

    Attributes:
      obs: int16 [B, K+1, W] as the players to move saw them; past the end, the last one again.
      live: float32 [B, K+1], 0 past the end.
      weights: float32 [B] importance weights, 1 for the position of the ring that is the least likely to be drawn.
      index: int64 [B] row of the first position.
      stamp: int64 [B] names the episode that the row held.
    """

    obs: NDArray[np.int16]
    live: NDArray[np.float32]
    weights: NDArray[np.float32]
    index: NDArray[np.int64]
    stamp: NDArray[np.int64]


@dataclass(frozen=True)
class Positions:
    """n stored positions, to be searched again.

    Attributes:
      obs: int16 [n, W].
      legal: bool [n, A].
      phase: int8 [n].
      to_play: int8 [n].
      index: int64 [n].
      stamp: int64 [n].
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.bool_]
    phase: NDArray[np.int8]
    to_play: NDArray[np.int8]
    index: NDArray[np.int64]
    stamp: NDArray[np.int64]


class SumTree:
    """Weights of rows, added up by phase in nodes of `FAN` children, over which rows are drawn a batch at a time.

    Sums are brought up to date when they are asked for. They are a function of the weights alone, whatever the order
    in which those were set.
    """

    def __init__(self, capacity: int, num_phases: int, phase: NDArray[np.int8]) -> None:
        """`phase`: [capacity] of each row; whoever writes to it sets the weights of the rows, too."""
        self.weights = np.zeros(capacity, np.float32)
        self._phase = phase.reshape(-1, FAN)
        self._dirty = np.zeros(capacity // FAN, np.bool_)
        shapes = self._shapes(capacity, num_phases)
        self._sums = [np.zeros(shape) for shape in shapes]  # lowest level first; the highest has one node
        self._least = [np.full(shape, np.inf) for shape in shapes]

    @staticmethod
    def _shapes(capacity: int, num_phases: int) -> list[tuple[int, int, int]]:
        """[phases, nodes, children] of each level."""
        shapes, nodes = [], capacity // FAN
        while nodes > 1:
            nodes = -(-nodes // FAN)
            shapes.append((num_phases, nodes, FAN))
        return shapes or [(num_phases, 1, FAN)]

    @staticmethod
    def bytes_needed(capacity: int, num_phases: int) -> int:
        """Memory of a tree."""
        numbers = sum(F * nodes * children for F, nodes, children in SumTree._shapes(capacity, num_phases))
        return 4 * capacity + capacity // FAN + 2 * 8 * numbers

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(array.nbytes for array in (self.weights, self._dirty, *self._sums, *self._least))

    def set(self, rows: NDArray[np.int64] | slice, weights: NDArray[np.float32] | float) -> None:
        """Weights of rows; 0 for those that hold nothing."""
        self.weights[rows] = weights
        if isinstance(rows, slice):
            self._dirty[rows.start // FAN : -(-rows.stop // FAN)] = True
        else:
            self._dirty[rows // FAN] = True

    def totals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum and least of the weights of each phase [F]; 0 and infinity for a phase without rows."""
        self._settle()
        return np.cumsum(self._sums[-1][:, 0], -1)[:, -1], self._least[-1][:, 0].min(-1)

    def find(self, phase: NDArray[np.int64], mass: NDArray[np.float64]) -> NDArray[np.int64]:
        """The row of a phase up to which its weights add up to more than `mass`. phase, mass [B] -> rows [B]"""
        self._settle()
        node = np.zeros(len(phase), np.int64)
        for sums in reversed(self._sums):
            child, mass = _pick(sums[phase, node], mass)
            node = node * FAN + child
        own = self._phase[node] == phase[:, None]
        child, _ = _pick(self.weights.reshape(-1, FAN)[node] * own.astype(np.float64), mass)
        return node * FAN + child

    def _settle(self) -> None:
        """Adds up what has changed, by cumulative sums: their order does not depend on how many nodes there are."""
        nodes = np.flatnonzero(self._dirty)
        if len(nodes) == 0:
            return
        weights, phases = self.weights.reshape(-1, FAN)[nodes].astype(np.float64), self._phase[nodes]
        for phase, (sums, least) in enumerate(zip(self._sums[0], self._least[0], strict=True)):
            own = np.where(phases == phase, weights, 0.0)
            sums.reshape(-1)[nodes] = np.cumsum(own, 1)[:, -1]
            least.reshape(-1)[nodes] = np.where(own > 0, own, np.inf).min(1)
        for (sums, upper_sums), (least, upper_least) in zip(pairwise(self._sums), pairwise(self._least), strict=True):
            nodes = np.unique(nodes // FAN)
            upper_sums.reshape(len(sums), -1)[:, nodes] = np.cumsum(sums[:, nodes], 2)[:, :, -1]
            upper_least.reshape(len(sums), -1)[:, nodes] = least[:, nodes].min(2)
        self._dirty[:] = False


def megabytes_needed(decisions: int, num_players: int, width: int, num_actions: int, num_phases: int) -> float:
    """Of a replay that holds so many decisions."""
    return bytes_needed(-(-decisions // FAN) * FAN, num_players, width, num_actions, num_phases) / 2**20


def _pick(weights: NDArray[np.float64], mass: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """weights [B, X], mass [B] -> the entry [B] that the mass falls into, and what is left of it there.

    Never an entry of weight 0: mass that rounding has carried past the end counts as the end's.
    """
    up_to = np.cumsum(weights, 1)
    mass = np.minimum(mass, np.nextafter(up_to[:, -1], 0.0))
    entry = (up_to > mass[:, None]).argmax(1)
    before = up_to[np.arange(len(mass)), np.maximum(entry - 1, 0)]
    return entry, mass - np.where(entry > 0, before, 0.0)


class ReplayBuffer:
    """The ring.

    Args:
      num_players, width, num_actions, num_phases: of the game.
      budget_bytes: of memory, for everything.
      keep_share: share of all decisions ever added that is kept, while there is room; 0 keeps as many as fit.
        Policies should follow soon while they still change much, and values want many games.
      keep_at_least: decisions that are kept whatever the window.
      unroll: K, steps of a window after its first position.
      steps: n of the n-step returns.
      discount: of the returns.
      frame: of the network, "root" or "mover".
      stratify: share of a batch that is drawn with the same probability from each phase there is; 0 to 1.
      alpha: exponent of the priorities; 0 makes all positions equal.
      beta: exponent of the importance weights; 1 makes up for everything but uniform sampling. May be changed.
      epsilon: added to priorities.
    """

    def __init__(
        self,
        *,
        num_players: int,
        width: int,
        num_actions: int,
        num_phases: int,
        budget_bytes: int,
        unroll: int,
        steps: int,
        discount: float,
        frame: str,
        keep_share: float = 0.0,
        keep_at_least: int = 0,
        stratify: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        epsilon: float = 1e-3,
    ) -> None:
        for name, size in (("num_players", num_players), ("width", width), ("num_phases", num_phases)):
            require(size >= 1, f"replay.{name}", "1 or more", size)
        require(1 <= num_actions <= MAX_ACTIONS, "replay.num_actions", f"1 to {MAX_ACTIONS}", num_actions)
        require(unroll >= 0, "replay.unroll", "0 or more", unroll)
        require(steps >= 1, "replay.steps", "1 or more", steps)
        require(0 < discount <= 1, "replay.discount", "more than 0, at most 1", discount)
        require(frame in FRAMES, "replay.frame", f"one of {', '.join(FRAMES)}", frame)
        require(0 <= keep_share <= 1, "replay.keep_share", "0 to 1", keep_share)
        require(keep_at_least >= 0, "replay.keep_at_least", "0 or more", keep_at_least)
        require(0 <= stratify <= 1, "replay.stratify", "0 to 1", stratify)
        require(alpha >= 0, "replay.alpha", "0 or more", alpha)
        require(beta >= 0, "replay.beta", "0 or more", beta)
        require(epsilon > 0, "replay.epsilon", "more than 0", epsilon)
        self.num_players, self.width = num_players, width
        self.num_actions, self.num_phases = num_actions, num_phases
        self.unroll, self.steps, self.discount, self.frame = unroll, steps, discount, frame
        self.keep_share, self.keep_at_least = keep_share, keep_at_least
        self.stratify, self.alpha, self.beta, self.epsilon = stratify, alpha, beta, epsilon

        def needed(nodes: int) -> int:
            return bytes_needed(nodes * FAN, num_players, width, num_actions, num_phases)

        nodes = bisect_right(range(1, 2 + budget_bytes // FAN), budget_bytes, key=needed)
        require(nodes >= 1, "replay.budget_bytes", f"at least {needed(1)}, the room of {FAN} decisions", budget_bytes)
        self.capacity = nodes * FAN
        self._rows = Decisions.zeros(self.capacity, num_players, width, num_actions)
        self._stamp = np.full(self.capacity, _EVICTED)
        self._tree = SumTree(self.capacity, num_phases, self._rows.phase)
        self._head = 0  # where the next episode goes, if it fits
        self._tail = 0  # first row of the oldest episode
        self._size = 0
        self._episodes = 0
        self._added = 0
        self._seen = 0  # decisions ever added
        self._typical = 1.0  # priority, of those learned from lately

    def __len__(self) -> int:
        """Decisions stored."""
        return self._size

    @property
    def episodes(self) -> int:
        """Episodes stored."""
        return self._episodes

    @property
    def fill(self) -> float:
        """Share of the capacity in use."""
        return self._size / self.capacity

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        return self._rows.nbytes + self._stamp.nbytes + self._tree.nbytes

    def ready(self, warm_up: int) -> bool:
        """Whether there have been `warm_up` decisions, and some are still here."""
        return self._size > 0 and self._seen >= warm_up

    # ---- in ----------------------------------------------------------------------------------------------------

    def add(self, episode: Episode) -> int:
        """Stores an episode, forgetting the oldest as needed. Returns its stamp."""
        self._check(episode)
        T = len(episode)
        if self._head + T > self.capacity:
            while self._episodes and self._tail >= self._head:
                self._evict()
            self._head = 0
        while self._episodes and self._head <= self._tail < self._head + T:
            self._evict()
        here = slice(self._head, self._head + T)
        stored = Decisions.of(episode, self.steps, self.discount, self._head)
        for f in fields(Decisions):
            getattr(self._rows, f.name)[here] = getattr(stored, f.name)
        stamp = self._added
        self._stamp[here] = stamp
        self._tree.set(here, self._weight(np.full(T, self._typical)))
        self._head += T
        self._size += T
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

    def _check(self, episode: Episode) -> None:
        episode.check()
        sizes = {"num_players": episode.num_players, "width": episode.obs.shape[1]}
        sizes["num_actions"] = episode.policy.shape[1]
        for name, size in sizes.items():
            require(size == getattr(self, name), f"episode.{name}", str(getattr(self, name)), size)
        require_range("episode.phase", episode.phase, self.num_phases)
        longest = f"at most {self.capacity} decisions, the capacity of the replay"
        require(len(episode) <= self.capacity, "episode", longest, f"{len(episode)} decisions")

    def _evict(self) -> None:
        """Forgets the oldest episode."""
        gone = slice(self._tail, int(self._rows.end[self._tail]))
        self._stamp[gone] = _EVICTED
        self._tree.set(gone, 0.0)
        self._size -= gone.stop - gone.start
        self._episodes -= 1
        above = gone.stop < self.capacity and self._stamp[gone.stop] != _EVICTED
        self._tail = gone.stop if above else 0

    def _weight(self, priority: NDArray[np.float64]) -> NDArray[np.float32]:
        """What a row is drawn in proportion to. [n] -> [n]"""
        weight: NDArray[np.float32] = ((priority + self.epsilon) ** self.alpha).astype(np.float32)
        return weight

    # ---- out ---------------------------------------------------------------------------------------------------

    def sample(self, batch: int, rng: np.random.Generator) -> Batch:
        """Draws windows, evenly spread over the distribution and in random order."""
        require(self._size >= 1, "replay", "something to sample from", "no decisions")
        totals, least = self._tree.totals()
        present = totals > 0
        chance = self.stratify * present / present.sum() + (1 - self.stratify) * totals / totals.sum()
        place = (rng.permutation(batch) + rng.random(batch)) / batch
        phase, mass = _pick(np.broadcast_to(chance, (batch, self.num_phases)), place)
        index = self._tree.find(phase, mass / chance[phase] * totals[phase])
        probability = chance[phase] / totals[phase] * self._tree.weights[index]
        lowest = (chance[present] / totals[present] * least[present]).min()
        filler = rng.integers(self.num_actions, size=(batch, self.unroll))
        steps, end = index[:, None] + np.arange(self.unroll + 1), self._rows.end[index][:, None]
        return Batch(
            **vars(unroll(self._rows, index, self.frame, filler)),
            obs=self._rows.obs.take(np.minimum(steps, end - 1), 0),
            live=(steps < end).astype(np.float32),
            weights=((lowest / probability) ** self.beta).astype(np.float32),
            index=index,
            stamp=self._stamp[index],
        )

    def update(self, index: NDArray[np.int64], stamp: NDArray[np.int64], priority: NDArray[np.floating[Any]]) -> None:
        """Sets priorities [n] of positions, except of those that have been overwritten since."""
        self._require_index(index, stamp)
        require(priority.shape == index.shape, "priority", f"shape {index.shape}", priority.shape)
        good = bool((np.isfinite(priority) & (priority >= 0)).all())
        require(good, "priority", "finite numbers, 0 or more", "others")
        fresh = self._stamp[index] == stamp
        index, priorities = index[fresh], priority[fresh].astype(np.float64)
        if len(priorities):
            self._typical += _RATE * (float(priorities.mean()) - self._typical)
        self._tree.set(index, self._weight(priorities))

    def sample_positions(self, n: int, rng: np.random.Generator) -> Positions:
        """Draws different positions, all with the same probability."""
        require(0 <= n <= self._size, "n", f"0 to {self._size}, the decisions stored", n)
        index = self._place(rng.choice(self._size, n, replace=False))
        rows = self._rows
        return Positions(
            obs=rows.obs[index],
            legal=unpack_legal(rows.legal[index], self.num_actions),
            phase=rows.phase[index],
            to_play=rows.to_play[index],
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
        """Replaces what search said of positions, except of those that have been overwritten since.

        Whether a position has a policy target stays as it was, and so does its priority.

        Args:
          index, stamp: [n].
          policy: [n, A].
          values: [n, P] by seat, NaN where unknown.
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
        rows.policy[index], rows.values[index] = policy[fresh], values[fresh]
        # All rows of the episodes that these belong to, episode after episode, and where each ends in that order.
        begin, some = np.unique(rows.begin[index], return_index=True)
        length = rows.end[index[some]] - begin
        end = np.repeat(np.cumsum(length), length)
        whole = np.arange(len(end)) - end + np.repeat(begin + length, length)
        rows.returns[whole] = returns(
            rows.rewards[whole], rows.values[whole], rows.last_values[whole], self.steps, self.discount, end
        )

    def _require_index(self, index: NDArray[np.int64], stamp: NDArray[np.int64]) -> None:
        require(index.ndim == 1 and stamp.shape == index.shape, "stamp", f"shape {index.shape}", stamp.shape)
        require_range("index", index, self.capacity)
        require(bool((stamp >= 0).all()), "stamp", "0 or more", stamp[stamp < 0][:5].tolist())

    def _place(self, age: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of decisions by age, 0 the oldest."""
        if self._tail < self._head:
            return self._tail + age
        above = self._size - self._head  # rows from the tail on, before the ring begins anew
        return np.where(age < above, self._tail + age, age - above)

    # ---- to a file and back --------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """A copy of everything that the future depends on, as plain arrays; decisions in order of age."""
        used = self._place(np.arange(self._size))
        begin = used[self._rows.begin[used] == used]
        kept = {name: getattr(self._rows, name)[used] for name in self._kept()}
        kept |= {"weight": self._tree.weights[used], "length": self._rows.end[begin] - begin}
        kept |= {"head": np.array(self._head), "tail": np.array(self._tail), "added": np.array(self._added)}
        kept |= {"seen": np.array(self._seen), "typical": np.array(self._typical)}
        return kept | {name: np.array(value) for name, value in self._settings().items()}

    def load(self, state: dict[str, NDArray[Any]]) -> None:
        """Goes back to a `state` of a replay with the same settings; refuses what cannot be one, by name."""
        self._check_state(state)
        self._stamp[:] = _EVICTED
        self._tree.set(slice(0, self.capacity), 0.0)
        self._head, self._tail, self._added, self._seen = (int(state[n]) for n in ("head", "tail", "added", "seen"))
        self._typical = float(state["typical"])
        length = state["length"]
        self._size, self._episodes = int(length.sum()), len(length)
        used = self._place(np.arange(self._size))
        begin = self._place(np.cumsum(length) - length)
        for name in self._kept():
            getattr(self._rows, name)[used] = state[name]
        self._rows.begin[used] = np.repeat(begin, length)
        self._rows.end[used] = np.repeat(begin + length, length)
        self._stamp[used] = np.repeat(self._added - self._episodes + np.arange(self._episodes), length)
        self._tree.set(used, state["weight"])

    @staticmethod
    def _kept() -> list[str]:
        """Fields that a state has for each decision; the rest follows from the lengths of the episodes."""
        return [f.name for f in fields(Decisions) if f.name not in ("begin", "end")]

    def _settings(self) -> dict[str, int | float]:
        """What stored rows depend on."""
        sizes = ("num_players", "width", "num_actions", "num_phases", "capacity", "keep_share", "keep_at_least")
        return {f"setting.{name}": getattr(self, name) for name in (*sizes, "steps", "discount", "alpha", "epsilon")}

    def _check_state(self, state: dict[str, NDArray[Any]]) -> None:
        settings, scalars = self._settings(), ("head", "tail", "added", "seen", "typical")
        names = {*self._kept(), "weight", "length", *scalars, *settings}
        require(set(state) == names, "state", "exactly the fields of a replay", sorted(set(state) ^ names))
        for name in (*scalars, *settings):
            require(state[name].shape == (), f"state.{name}", "one number", state[name])
        for name, expected in settings.items():
            require(state[name] == expected, f"state.{name}", str(expected), state[name])
        n, length = len(state["weight"]), state["length"]
        kinds = columns(self.num_players, self.width, self.num_actions)
        for name in self._kept():
            require_array(f"state.{name}", state[name], kinds[name][0], (n, *kinds[name][1]))
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
        # From the tail on, or from the tail on and then from 0, there are whole episodes up to the head.
        head, tail = int(state["head"]), int(state["tail"])
        above = n if tail < head else n - head
        whole = tail + n == head if tail < head else above in np.cumsum(length) or n == head == tail == 0
        fits = 0 <= tail <= tail + above <= self.capacity and 0 <= head <= self.capacity
        require(whole and fits, "state.head", f"an end of the {n} decisions that begin at {tail}", head)


def bytes_needed(capacity: int, num_players: int, width: int, num_actions: int, num_phases: int) -> int:
    """Memory of a replay for `capacity` decisions, which is a multiple of `FAN`."""
    kinds = columns(num_players, width, num_actions).values()
    row = sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in kinds) + np.dtype(np.int64).itemsize
    return row * capacity + SumTree.bytes_needed(capacity, num_phases)
