"""Python interface of the search: array shapes and defaults around the C++ core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcts import _native


@dataclass(frozen=True)
class PhaseTable:
    """Moves inside the tree, where the real rules are unknown. All arrays are [phases, A].

    Attributes:
      possible: actions that can be legal in a phase.
      next_phase: phase that normally follows an action.
      turn_passes: whether the next player moves after the action.
      chance: whether a chance event may follow the action; None if there are no such events.
      pool: set of cards that the event draws from, a row of the counts that `Search.begin` takes; None if all draw from
        the only one.
      leaves_round: whether the player leaves the round with the action: the turn passes over such players until nobody
        is left, when all are back. None if there are no such actions.
      last_phase: phase that follows such an action if it leaves one player in the round; None if `leaves_round` is.
    """

    possible: NDArray[np.bool_]
    next_phase: NDArray[np.uint8]
    turn_passes: NDArray[np.bool_]
    chance: NDArray[np.bool_] | None = None
    pool: NDArray[np.int64] | None = None
    leaves_round: NDArray[np.bool_] | None = None
    last_phase: NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        if (self.leaves_round is None) != (self.last_phase is None):
            raise ValueError("phase table: expected both leaves_round and last_phase, or neither, got one")
        if (np.asarray(self.next_phase) > 255).any() or (np.asarray(self.next_phase) < 0).any():
            raise ValueError("phase table: expected phases from 0 to 254")
        if self.pool is not None and ((np.asarray(self.pool) > 255).any() or (np.asarray(self.pool) < 0).any()):
            raise ValueError("phase table: expected pools from 0 to 255")

    @staticmethod
    def trivial(num_actions: int, turn_passes: bool = False) -> PhaseTable:
        """A table of one phase in which every action is possible."""
        shape = (1, num_actions)
        return PhaseTable(np.ones(shape, bool), np.zeros(shape, np.uint8), np.full(shape, turn_passes))


@dataclass(frozen=True)
class ActionTable:
    """Slots that actions touch, by which equivalent actions are recognised. Each player has S / P slots.

    Actions are equivalent if they are of one kind and touch slots of the same classes in the same roles, in the same
    pattern of blocks. Actions must change no other slots than those they touch; those that touch none are never joined.

    Attributes:
      kind: [A] kind of each action.
      slots: [A, K] slots that each action touches, counted from the mover's first slot on and filled up with -1.
      roles: [A, K] role of each of these slots.
      block_of: [S / P] symmetric block that each slot of a player belongs to.
    """

    kind: NDArray[np.int64]
    slots: NDArray[np.int64]
    roles: NDArray[np.int64]
    block_of: NDArray[np.int64]

    def __post_init__(self) -> None:
        shape = np.shape(self.slots)
        if len(shape) != 2 or np.shape(self.roles) != shape or np.shape(self.kind) != shape[:1]:
            raise ValueError(
                "action table: expected kind [A], slots [A, K] and roles [A, K], "
                f"got shapes {np.shape(self.kind)}, {shape} and {np.shape(self.roles)}"
            )
        if np.ndim(self.block_of) != 1 or not np.size(self.block_of):
            raise ValueError(
                f"action table: expected block_of [slots of a player], got shape {np.shape(self.block_of)}"
            )


@dataclass(frozen=True)
class Requests:
    """Evaluations that the network has to make in one step. All arrays are int64 [L * B].

    Attributes:
      parent: index of the parent's hidden state, in an array laid out [nodes, B]. Entry i of step s becomes node
        1 + s L + i // B of game i % B. The parent is the position in which the action is taken, also if the outcome of
        a chance event is told.
      action: action taken at the parent.
      shift: number of seats by which the turn moves on with the action, 0 where the player goes on; more than 1 where
        players who have left the round are passed over.
      to_play: seat to move after the action, relative to the root's player.
      outcome: outcome of the chance event that follows the action; 0 if it is not told.
    """

    parent: NDArray[np.int64]
    action: NDArray[np.int64]
    shift: NDArray[np.int64]
    to_play: NDArray[np.int64]
    outcome: NDArray[np.int64]


@dataclass(frozen=True)
class Results:
    """Results of a search.

    Attributes:
      policy: [B, A] policy target: visit shares (puct) or the improved policy (gumbel). Equivalent actions have equal
        parts of what was found for the one that was searched.
      values: [B, V] mean of the returns seen from the root, by seat relative to the root's player.
      visits: [B, A] visits of the root's actions, in equal parts for equivalent ones.
      q: [B, A] values of the visited actions for the root's player; 0 for the others.
    """

    policy: NDArray[np.float32]
    values: NDArray[np.float32]
    visits: NDArray[np.float32]
    q: NDArray[np.float32]


class Search:
    """B searches in lockstep over one arena, which every `begin` reuses.

    Args:
      config: settings; see `Config.fields()`.
      batch: largest number of trees, B.
      num_actions: number of actions, A; at most 64.
      num_players: number of players, P. There are V = P values with the backup "maxn", and V = 1 with "ego".
      phase_table: moves inside the tree; by default one phase in which the turn never passes.
      mover_frame: whether, with "maxn", network outputs list the players from the seat on that moves at the new node,
        for values and rewards; otherwise they list them from the root player's seat.
      num_outcomes: number of outcome codes of chance events, O; at most 64. Code 0 means that nothing happened or was
        seen. With 1 there are no chance nodes, whatever the phase table says.
      equivalence: slots that actions touch, if equivalent actions are to be searched as one; see `begin`.
    """

    def __init__(
        self,
        config: _native.Config,
        *,
        batch: int,
        num_actions: int,
        num_players: int = 1,
        phase_table: PhaseTable | None = None,
        mover_frame: bool = True,
        num_outcomes: int = 1,
        equivalence: ActionTable | None = None,
    ) -> None:
        table = phase_table or PhaseTable.trivial(num_actions)
        chance = np.zeros_like(table.possible) if table.chance is None else np.asarray(table.chance)
        pool = np.zeros(chance.shape, np.uint8) if table.pool is None else np.asarray(table.pool)
        self._native = _native.Search(
            config=config,
            batch=batch,
            num_actions=num_actions,
            num_players=num_players,
            mover_frame=mover_frame,
            phases=len(table.possible),
            possible=table.possible.astype(np.uint8).ravel().tolist(),
            next_phase=table.next_phase.astype(np.uint8).ravel().tolist(),
            turn_passes=table.turn_passes.astype(np.uint8).ravel().tolist(),
            leaves_round=[] if table.leaves_round is None else table.leaves_round.astype(np.uint8).ravel().tolist(),
            last_phase=[] if table.last_phase is None else table.last_phase.astype(np.uint8).ravel().tolist(),
            num_outcomes=num_outcomes,
            num_pools=int(pool.max(initial=0)) + 1,
            chance=chance.astype(np.uint8).ravel().tolist(),
            pool=pool.astype(np.uint8).ravel().tolist(),
            touches=0 if equivalence is None else equivalence.slots.shape[1],
            action_kind=[] if equivalence is None else equivalence.kind.tolist(),
            action_slots=[] if equivalence is None else equivalence.slots.ravel().tolist(),
            action_roles=[] if equivalence is None else equivalence.roles.ravel().tolist(),
            block_of=[] if equivalence is None else equivalence.block_of.tolist(),
        )
        self.config = config
        self.batch = self.active = batch
        self.num_actions = num_actions
        self.num_outcomes = num_outcomes
        self.num_values = num_players if config.backup == "maxn" else 1
        self.leaves = config.leaves
        self.steps: int = self._native.steps
        self.nodes: int = self._native.nodes

    @property
    def levels(self) -> int:
        """Number of tree levels walked since `begin`, over all trees."""
        return self._native.levels

    @property
    def seconds(self) -> float:
        """Seconds spent in the trees since they were made."""
        return self._native.seconds

    @property
    def bytes(self) -> int:
        """Bytes of the arena."""
        return self._native.bytes

    def begin(
        self,
        outputs: NDArray[np.float32],
        legal: NDArray[np.uint64],
        phase: NDArray[np.int8] | None = None,
        keys: NDArray[np.uint64] | None = None,
        noise: NDArray[np.float32] | None = None,
        counts: NDArray[np.int16] | NDArray[np.float32] | None = None,
        classes: NDArray[np.uint8] | None = None,
        absent: NDArray[np.uint64] | None = None,
    ) -> None:
        """Starts new trees: up to `batch` of them. B is their number in all shapes until the next `begin`.

        Args:
          outputs: [B, A + V] logits and values of the roots.
          legal: [B] legal actions of the roots, a bit per action: bit a stands for action a.
          phase: [B] phases of the roots, by default 0.
          keys: [B] seeds of each row's random numbers, by default the row's index.
          noise: [B, A] root noise to use instead of drawing it. Of equivalent actions, gumbel uses the first one's and
            puct the sum.
          counts: [B, pools, O - 1] unseen cards of each kind in each pool, in the order of the outcome codes from 1 on;
            needed for chance_source "exact" or "cards".
          classes: [B, S] classes of the slots of all players, from the player to move on: slots of a player with the
            same class may trade places. Equivalent actions are then searched as one; None searches them apart.
          absent: [B] players who have left the round, a bit per player, counted from the player to move; None if nobody
            has.
        """
        count = len(outputs)
        phase = np.zeros(count, np.int8) if phase is None else phase
        keys = np.arange(count, dtype=np.uint64) if keys is None else keys
        if noise is not None and not np.isfinite(noise).all():
            raise ValueError("noise: expected finite numbers")
        numbers = None if counts is None else np.ascontiguousarray(counts, np.float32)
        self._native.begin(outputs, legal, phase, keys, noise, numbers, classes, absent)
        self.active = count

    def requests(self) -> Requests:
        """Arrays for `select` to fill. Make them once; a caller may also allocate its own, in pinned memory."""
        return Requests(*(np.zeros(self.leaves * self.active, np.int64) for _ in range(5)))

    def select(self, out: Requests | None = None) -> Requests:
        """Walk down every tree to an action that has not been tried, and return these actions."""
        out = out or self.requests()
        self._native.select(out.parent, out.action, out.shift, out.to_play, out.outcome)
        return out

    def expand(self, outputs: NDArray[np.float32]) -> None:
        """Take network outputs of the selected nodes and back them up.

        Args:
          outputs: [L * B, A + 2 V] logits, values, rewards. If there are chance nodes (O > 1), [L * B, A + O + 2 V]
            logits, outcome logits, values, rewards; chance nodes need no logits, the others no outcome logits.
        """
        self._native.expand(outputs)

    def expand_and_select(self, outputs: NDArray[np.float32], out: Requests) -> None:
        """Do `expand`, then `select` for the next step, in a single pass. For all steps but the last."""
        self._native.expand_and_select(outputs, out.parent, out.action, out.shift, out.to_play, out.outcome)

    def targets(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Policy [B, A] and values [B, V] found so far: the part of `results` that training needs."""
        policy = np.empty((self.active, self.num_actions), np.float32)
        values = np.empty((self.active, self.num_values), np.float32)
        self._native.targets(policy, values)
        return policy, values

    def results(self) -> Results:
        """Everything that the search has found so far."""
        visits, q = np.empty((2, self.active, self.num_actions), np.float32)
        self._native.root_actions(visits, q)
        return Results(*self.targets(), visits, q)

    def choose(self, temperature: float = 1.0) -> NDArray[np.int64]:
        """Actions to take, [B]. Puct draws them by visits ** (1 / temperature); gumbel takes the best ones found."""
        out = np.empty(self.active, np.int64)
        self._native.choose(temperature, out)
        return out

    def principal_lines(self, first: NDArray[np.int64], depth: int) -> NDArray[np.int64]:
        """Lines of most visited moves, [B, depth, 2]: an action and the outcome that follows it, -1 past the end.

        Args:
          first: [B] actions that the lines begin with, such as those that `choose` returned.
          depth: largest number of actions in a line.
        """
        lines = np.full((self.active, depth, 2), -1, np.int64)
        tree = self.tree()
        child, visits, chance = tree["child"], tree["edge_visits"], tree["chance"]
        for game in range(self.active):
            node, edge = 0, int(first[game])
            for step in range(depth):
                lines[game, step] = edge, 0
                node = int(child[game, node, edge])
                if node >= 0 and chance[game, node]:
                    outcome = int(visits[game, node].argmax())
                    if not visits[game, node, outcome]:
                        break
                    lines[game, step, 1] = outcome
                    node = int(child[game, node, outcome])
                if node < 0 or not visits[game, node].any():
                    break
                edge = int(visits[game, node].argmax())
        return lines

    def tree(self) -> dict[str, NDArray[np.generic]]:
        """Views of the arena's arrays, [batch, nodes, ...], for tests and debugging."""
        return self._native.tree()
