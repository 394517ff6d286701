"""The search's Python face: names, shapes and defaults around the C++ core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcts import _native

considered_visits = _native.considered_visits


@dataclass(frozen=True)
class PhaseTable:
    """What may happen inside the tree, where the real rules are unknown; all [phases, A].

    Attributes:
      possible: actions that can be legal in a phase.
      next_phase: the phase that normally follows.
      turn_passes: whether the next player is to move then.
    """

    possible: NDArray[np.bool_]
    next_phase: NDArray[np.uint8]
    turn_passes: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if (np.asarray(self.next_phase) > 255).any() or (np.asarray(self.next_phase) < 0).any():
            raise ValueError("phase table: expected phases from 0 to 254")

    @staticmethod
    def trivial(num_actions: int, turn_passes: bool = False) -> PhaseTable:
        """One phase in which everything is possible."""
        shape = (1, num_actions)
        return PhaseTable(np.ones(shape, bool), np.zeros(shape, np.uint8), np.full(shape, turn_passes))


@dataclass(frozen=True)
class Requests:
    """What the network is asked in one step; all [L * B] int64.

    Attributes:
      parent: index of the parent's hidden state, in an array laid out [nodes, B]; the answer to entry i of step s
        belongs to node 1 + s L + i // B of game i % B.
      action: taken there.
      shift: 1 where the turn passes to the next player by it, else 0.
      to_play: seat to move afterwards, relative to the root's player.
    """

    parent: NDArray[np.int64]
    action: NDArray[np.int64]
    shift: NDArray[np.int64]
    to_play: NDArray[np.int64]


@dataclass(frozen=True)
class Results:
    """What a search found.

    Attributes:
      policy: [B, A] policy target: shares of the visits (puct) or the improved policy (gumbel).
      visits: [B, A].
      values: [B, V] mean of the returns seen from the root, by seat relative to its player.
      q: [B, A] of the actions tried, for the root's player; 0 for the others.
    """

    policy: NDArray[np.float32]
    visits: NDArray[np.float32]
    values: NDArray[np.float32]
    q: NDArray[np.float32]


class Search:
    """B searches in lockstep over one arena, which is reused by every `begin`.

    Args:
      batch: B.
      num_actions: A, at most 64.
      num_players: P.
      simulations: nodes added to each tree (rounded up to a multiple of `leaves`); 0 gives the prior.
      algorithm: "puct" or "gumbel".
      phase_table: see `PhaseTable`; by default one phase and no passing of turns.
      backup: "maxn": a value per player, V = P, and each node's player maximises its own; "ego": one value, the root
        player's, V = 1, never inverted.
      mover_frame: with "maxn", network outputs list the players from the mover's seat on (for rewards: the parent's
        mover); otherwise from the root player's.
      leaves: L, leaves selected per tree and step; more than one keeps a small batch busy.
      threads: threads that share the batch.
      discount: of values one action later.
      pb_c_base, pb_c_init: exploration of puct.
      dirichlet_alpha, dirichlet_fraction: root noise of puct, and its share of the prior.
      unvisited: what an untried action counts as in puct: "neutral", its parent's value, or "lowest".
      virtual_loss: with several leaves, how much a visit under way counts as the lowest value, 0 to 1.
      max_considered: actions that gumbel considers at the root.
      gumbel_scale: of gumbel's root noise; 0 for evaluation.
      value_scale, maxvisit_init: weight of values against the prior in gumbel.
      rescale_values: gumbel: rescale a node's values to 0..1 first, so that its best action stands out by as much
        whether it is better by a lot or by chance; else the weight is per unit of value.
    """

    def __init__(
        self,
        *,
        batch: int,
        num_actions: int,
        num_players: int = 1,
        simulations: int,
        algorithm: str = "gumbel",
        phase_table: PhaseTable | None = None,
        backup: str = "maxn",
        mover_frame: bool = True,
        leaves: int = 1,
        threads: int = 1,
        discount: float = 1.0,
        pb_c_base: float = 19652.0,
        pb_c_init: float = 1.25,
        dirichlet_alpha: float = 0.3,
        dirichlet_fraction: float = 0.0,
        unvisited: str = "neutral",
        virtual_loss: float = 1.0,
        max_considered: int = 16,
        gumbel_scale: float = 1.0,
        value_scale: float = 0.1,
        maxvisit_init: float = 50.0,
        rescale_values: bool = True,
    ) -> None:
        _require("backup", backup, ("maxn", "ego"))
        _require("unvisited", unvisited, ("neutral", "lowest"))
        table = phase_table or PhaseTable.trivial(num_actions)
        self._native = _native.Search(
            batch=batch,
            num_actions=num_actions,
            num_players=num_players,
            simulations=simulations,
            algorithm=algorithm,
            maxn=backup == "maxn",
            mover_frame=mover_frame,
            leaves=leaves,
            threads=threads,
            discount=discount,
            pb_c_base=pb_c_base,
            pb_c_init=pb_c_init,
            dirichlet_alpha=dirichlet_alpha,
            dirichlet_fraction=dirichlet_fraction,
            neutral_unvisited=unvisited == "neutral",
            virtual_loss=virtual_loss,
            max_considered=max_considered,
            gumbel_scale=gumbel_scale,
            value_scale=value_scale,
            maxvisit_init=maxvisit_init,
            rescale_values=rescale_values,
            phases=len(table.possible),
            possible=table.possible.astype(np.uint8).ravel().tolist(),
            next_phase=table.next_phase.astype(np.uint8).ravel().tolist(),
            turn_passes=table.turn_passes.astype(np.uint8).ravel().tolist(),
        )
        self.batch = self.active = batch
        self.num_actions = num_actions
        self.num_values = num_players if backup == "maxn" else 1
        self.leaves = leaves
        self.steps: int = self._native.steps
        self.nodes: int = self._native.nodes

    @property
    def levels(self) -> int:
        """Tree levels walked since `begin`, over all trees."""
        return self._native.levels

    @property
    def seconds(self) -> float:
        """Time spent in the trees since they were made."""
        return self._native.seconds

    @property
    def bytes(self) -> int:
        """Memory of the arena."""
        return self._native.bytes

    def begin(
        self,
        outputs: NDArray[np.float32],
        legal: NDArray[np.bool_],
        phase: NDArray[np.int8] | None = None,
        keys: NDArray[np.uint64] | None = None,
        noise: NDArray[np.float32] | None = None,
    ) -> None:
        """Plants new trees: B of them, or fewer, and then B stands for their number below.

        Args:
          outputs: [B, A + V] logits and values of the roots.
          legal: [B, A].
          phase: [B], by default 0.
          keys: [B] name the randomness of each row, by default its index.
          noise: [B, A] root noise to use instead of drawing it.
        """
        count = len(outputs)
        phase = np.zeros(count, np.int8) if phase is None else phase
        keys = np.arange(count, dtype=np.uint64) if keys is None else keys
        if noise is not None and not np.isfinite(noise).all():
            raise ValueError("noise: expected finite numbers")
        self._native.begin(outputs, legal, phase, keys, noise)
        self.active = count

    def requests(self) -> Requests:
        """Arrays for `select` to fill; make them once, or in pinned memory yourself."""
        return Requests(*(np.zeros(self.leaves * self.active, np.int64) for _ in range(4)))

    def select(self, out: Requests | None = None) -> Requests:
        """Walks down every tree to an action that has not been tried."""
        out = out or self.requests()
        self._native.select(out.parent, out.action, out.shift, out.to_play)
        return out

    def expand(self, outputs: NDArray[np.float32]) -> None:
        """Takes the network's answers, [L * B, A + 2 V]: logits, values, rewards; and backs them up."""
        self._native.expand(outputs)

    def expand_and_select(self, outputs: NDArray[np.float32], out: Requests) -> None:
        """`expand`, then `select` for the next step, in one go; for all steps but the last."""
        self._native.expand_and_select(outputs, out.parent, out.action, out.shift, out.to_play)

    def results(self) -> Results:
        """What the search has found so far."""
        shapes = (self.num_actions, self.num_actions, self.num_values, self.num_actions)
        results = Results(*(np.empty((self.active, width), np.float32) for width in shapes))
        self._native.results(results.policy, results.visits, results.values, results.q)
        return results

    def choose(self, temperature: float = 1.0) -> NDArray[np.int64]:
        """An action per tree, [B]. Puct samples visits ** (1 / temperature); gumbel takes the best action found."""
        out = np.empty(self.active, np.int64)
        self._native.choose(temperature, out)
        return out

    def tree(self) -> dict[str, NDArray[np.generic]]:
        """Views of the arena's arrays, [B, nodes, ...], for tests and debugging."""
        return self._native.tree()


def _require(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(choices)}, got {value!r}")
