"""Random searches with chance nodes and equivalent actions, and a function that runs them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcts import ActionTable, Config, PhaseTable, Results, Search
from tests.mcts.reference import ChanceWorld, Rules
from tests.mcts.worlds import pack

STATES = 64


def explore_chance(search: Search, world: ChanceWorld, roots: NDArray[np.int64], **begin: Any) -> Results:
    """Run a whole search from the states `roots`, with values and rewards in the frame of the new node's mover."""
    count, players = len(roots), search.num_values
    states = np.zeros((search.nodes, search.batch), np.int64)
    states[0, :count] = roots
    search.begin(np.concatenate([world.logits[roots], world.value[roots]], 1), **begin)
    for step in range(search.steps):
        asked = search.select()
        before = states.reshape(-1)[asked.parent]
        after = world.next[before, asked.action, asked.outcome]
        fresh = 1 + step * search.leaves
        states[fresh : fresh + search.leaves, :count] = after.reshape(search.leaves, count)
        order = (asked.to_play[:, None] + np.arange(players)) % players
        values = np.take_along_axis(world.value[after], order, 1)
        rewards = np.take_along_axis(world.reward[before, asked.action, asked.outcome], order, 1)
        outcomes = [world.outcome_logits[after]] if search.num_outcomes > 1 else []
        search.expand(np.concatenate([world.logits[after], *outcomes, values, rewards], 1))
    return search.results()


def random_action_table(rng: np.random.Generator, actions: int, players: int) -> ActionTable:
    """A table in which some actions touch nothing, and others one to three slots of boards with symmetric blocks."""
    blocks, size = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    per = blocks * size
    slots = np.full((actions, 3), -1)
    for action in range(actions):
        boards = 1 if rng.random() < 0.7 else players
        touched = rng.permutation(per * boards)[: rng.choice([0, 1, 1, 1, 2, 2, 3])]
        slots[action, : len(touched)] = touched
    return ActionTable(
        kind=rng.random(actions) < 0.2,
        slots=slots,
        roles=np.where(slots >= 0, rng.random(slots.shape) < 0.2, -1),
        block_of=np.repeat(np.arange(blocks), size),
    )


@dataclass
class ChanceProblem:
    """Settings, tables and roots of one random search.

    Attributes:
      settings: settings of the search; all that the reference reads are named.
      sizes: sizes and tables that `mcts.Search` takes.
      world: network outputs.
      roots: [B] states of the roots.
      begin: arguments of `mcts.Search.begin` except for the outputs.
      legal: [B, A] legal actions.
    """

    settings: dict[str, Any]
    sizes: dict[str, Any]
    world: ChanceWorld
    roots: NDArray[np.int64]
    begin: dict[str, Any]
    legal: NDArray[np.bool_] = field(repr=False)

    @staticmethod
    def random(seed: int, batch: int = 4, **fixed: Any) -> ChanceProblem:
        rng = np.random.default_rng(seed)
        actions, outcomes, players = int(rng.integers(2, 11)), int(rng.integers(1, 8)), int(rng.integers(1, 4))
        phases, pools = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        algorithm = ("puct", "gumbel")[seed % 2]
        settings: dict[str, Any] = {
            "algorithm": algorithm,
            "simulations": int(rng.integers(1, 50)),
            "backup": str(rng.choice(["maxn", "ego"])),
            "discount": float(rng.choice([1.0, 0.9])),
            "pb_c_base": 19652.0,
            "pb_c_init": 1.25,
            "dirichlet_fraction": 0.25,
            "unvisited": str(rng.choice(["neutral", "lowest"])),
            "max_considered": int(rng.integers(1, 9)),
            "gumbel_scale": 1.0,
            "value_scale": 0.1,
            "maxvisit_init": float(rng.choice([50.0, 5.0])),
            "rescale_values": bool(rng.integers(2)),
            "visit_trust": float(rng.choice([1.0, 0.3])),
            "value_visits": float(rng.choice([0.0, 2.0])),
            "chance_source": str(rng.choice(["learned", "exact", "uniform"])),
            "chance_choice": str(rng.choice(["spread", "prior"])),
            "correct_luck": bool(rng.integers(2)),
        } | fixed
        possible = rng.random((phases, actions)) < 0.7
        possible[np.arange(phases), rng.integers(0, actions, phases)] = True
        table = PhaseTable(
            possible,
            rng.integers(0, phases, (phases, actions)).astype(np.uint8),
            rng.random((phases, actions)) < 0.5,
            chance=rng.random((phases, actions)) < 0.6,
            pool=rng.integers(0, pools, (phases, actions)),
        )
        if leaving := rng.random() < 0.4:
            leaves, last = rng.random((phases, actions)) < 0.3, rng.integers(0, phases, (phases, actions))
            table = replace(table, leaves_round=leaves, last_phase=last.astype(np.uint8))
        pools = int(table.pool.max()) + 1 if table.pool is not None else 1
        values = players if settings["backup"] == "maxn" else 1
        equivalence = random_action_table(rng, actions, players) if rng.random() < 0.6 else None
        legal = rng.random((batch, actions)) < 0.7
        legal[np.arange(batch), rng.integers(0, actions, batch)] = True
        counts = rng.integers(0, 3, (batch, pools, outcomes - 1)).astype(np.int16)
        counts[::2] = counts[::2, :1]  # rows of pools that are views of the same cards
        begin: dict[str, Any] = {
            "legal": pack(legal),
            "phase": rng.integers(0, phases, batch).astype(np.int8),
            "keys": rng.integers(0, 2**63, batch).astype(np.uint64),
            "noise": (rng.gumbel(size=legal.shape) if algorithm == "gumbel" else rng.random(legal.shape)).astype(
                np.float32
            ),
            "counts": counts,
            "classes": None,
            "absent": rng.integers(0, 1 << (players - 1), batch).astype(np.uint64) << 1 if leaving else None,
        }
        if equivalence is not None:
            slots = players * len(equivalence.block_of)
            begin["classes"] = rng.integers(0, 2, (batch, slots)).astype(np.uint8)
        return ChanceProblem(
            settings,
            {
                "batch": batch,
                "num_actions": actions,
                "num_players": players,
                "num_outcomes": outcomes,
                "phase_table": table,
                "equivalence": equivalence,
            },
            ChanceWorld.random(seed, actions, outcomes, values),
            rng.integers(0, STATES, batch),
            begin,
            legal,
        )

    def search(self, **changes: Any) -> Search:
        names = {f.name for f in Config.fields()}
        settings = self.settings | {name: value for name, value in changes.items() if name in names}
        sizes = self.sizes | {name: value for name, value in changes.items() if name not in names}
        return Search(Config(**settings), **sizes)

    def run(self, rows: Any = slice(None), **changes: Any) -> tuple[Search, Results]:
        """Search the given rows."""
        search = self.search(**changes)
        begin = {name: None if value is None else value[rows] for name, value in self.begin.items()}
        return search, explore_chance(search, self.world, self.roots[rows], **begin)

    def rules(self, row: int) -> Rules:
        """Rules of a row for the reference."""
        classes, absent = self.begin["classes"], self.begin["absent"]
        return Rules(
            settings=self.settings,
            table=self.sizes["phase_table"],
            players=self.sizes["num_players"],
            outcomes=self.sizes["num_outcomes"],
            key=int(self.begin["keys"][row]),
            phase=int(self.begin["phase"][row]),
            legal=np.flatnonzero(self.legal[row]).tolist(),
            noise=self.begin["noise"][row].tolist(),
            counts=self.begin["counts"][row].tolist(),
            actions=self.sizes["equivalence"],
            classes=None if classes is None else classes[row].tolist(),
            absent=frozenset() if absent is None else frozenset(p for p in range(64) if int(absent[row]) >> p & 1),
        )
