"""A slow search with chance nodes and equivalent actions, one game at a time, in double precision.

It shares no code with mcts/ and is written from the definitions: nodes are objects, visits and values are recomputed
from lists of returns, and classes of slots are labels of any kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcts import ActionTable, PhaseTable, considered_visits

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15  # fractional part of the golden ratio, times 2 ** 64


@dataclass
class ChanceWorld:
    """Network outputs for each of S states; players are seats relative to the root's.

    Attributes:
      next: [S, A, O] next states; outcome 0 gives the position in which nothing has been told.
      reward: [S, A, O, V] rewards.
      value: [S, V] values.
      logits: [S, A] policy logits.
      outcome_logits: [S, O] logits of the outcomes of the event that led here.
    """

    next: NDArray[np.int64]
    reward: NDArray[np.float32]
    value: NDArray[np.float32]
    logits: NDArray[np.float32]
    outcome_logits: NDArray[np.float32]

    @staticmethod
    def random(seed: int, actions: int, outcomes: int, values: int, states: int = 64) -> ChanceWorld:
        rng = np.random.default_rng(seed)

        def normal(*shape: int) -> NDArray[np.float32]:
            return rng.normal(size=(states, *shape)).astype(np.float32)

        return ChanceWorld(
            next=rng.integers(0, states, (states, actions, outcomes)),
            reward=normal(actions, outcomes, values) * np.float32(0.3),
            value=normal(values),
            logits=normal(actions) * np.float32(1.5),
            outcome_logits=normal(outcomes),
        )


@dataclass
class Rules:
    """Everything that a search is told apart from the world: settings, tables, and one root."""

    settings: dict[str, Any]
    table: PhaseTable
    players: int
    outcomes: int
    key: int
    phase: int
    legal: list[int]
    noise: list[float] | None
    counts: list[list[int]] | None = None
    actions: ActionTable | None = None
    classes: list[Any] | None = None
    absent: frozenset[int] = frozenset()


@dataclass
class Node:
    """A decision or chance node; `returns` are those of all visits, its own value first."""

    state: int
    phase: int
    to_play: int
    chance: bool
    path: int
    reward: list[float]
    up: Node | None = None
    edge: int = -1
    legal: list[int] = field(default_factory=list)
    logit: dict[int, float] = field(default_factory=dict)
    prior: dict[int, float] = field(default_factory=dict)
    returns: list[list[float]] = field(default_factory=list)
    children: dict[int, Node] = field(default_factory=dict)
    classes: list[Any] | None = None
    copies: dict[int, list[int]] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()

    def visits(self, edge: int) -> int:
        return len(self.children[edge].returns) if edge in self.children else 0

    def mean(self) -> NDArray[np.float64]:
        return np.mean(self.returns, 0)


def mixed_bits(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def path_key(key: int, edge: int) -> int:
    return mixed_bits((key + GOLDEN * (edge + 1)) & MASK)


def softmax(logits: dict[int, float]) -> dict[int, float]:
    highest = max(logits.values())
    weights = {edge: math.exp(logit - highest) for edge, logit in logits.items()}
    return {edge: weight / sum(weights.values()) for edge, weight in weights.items()}


class Reference:
    """Search of one root, one simulation per `simulate`."""

    def __init__(self, world: ChanceWorld, rules: Rules, state: int) -> None:
        self.world, self.rules, self.settings = world, rules, rules.settings
        self.values = world.value.shape[1]
        start = path_key(path_key(0, rules.key), 2)
        self.root = Node(state, rules.phase, 0, False, start, [0.0] * self.values, legal=list(rules.legal))
        self.root.classes, self.root.absent = rules.classes, rules.absent
        self.evaluate(self.root)
        self.add_noise()
        self.schedule = considered_visits(
            min(self.settings["max_considered"], len(self.root.legal)), self.settings["simulations"]
        )
        for made in range(self.settings["simulations"]):
            self.simulate(made)

    # ---- nodes -------------------------------------------------------------------------------------------

    def evaluate(self, node: Node) -> None:
        value = self.world.value[node.state].astype(float)
        if node.chance:
            node.prior = self.outcome_probabilities(node)
            node.legal = [code for code, p in node.prior.items() if p > 0]
            value = np.array(node.reward) + self.settings["discount"] * value
            node.reward = [0.0] * self.values
        else:
            node.logit = {a: float(self.world.logits[node.state, a]) for a in node.legal}
            self.join(node)
            node.prior = softmax(node.logit)
        node.returns.append(list(value))

    def decision_above(self, node: Node) -> tuple[Node, int]:
        """Decision node above, and the action taken there."""
        assert node.up is not None
        step = node.up if node.up.chance else node
        assert step.up is not None
        return step.up, step.edge

    def child(self, node: Node, edge: int) -> Node:
        table, world = self.rules.table, self.world
        decision, action, outcome = node, edge, 0
        if node.chance:
            assert node.up is not None
            decision, action, outcome = node.up, node.edge, edge
        state = int(world.next[decision.state, action, outcome])
        reward = [float(r) for r in world.reward[decision.state, action, outcome]]
        phase, absent = int(table.next_phase[decision.phase, action]), decision.absent
        if table.leaves_round is not None and table.leaves_round[decision.phase, action]:
            assert table.last_phase is not None
            absent = absent | {decision.to_play}
            if len(absent) == self.rules.players - 1:
                phase = int(table.last_phase[decision.phase, action])
            if len(absent) == self.rules.players:
                absent = frozenset()
        seats = [(decision.to_play + k) % self.rules.players for k in range(1, self.rules.players + 1)]
        present = [seat for seat in seats if seat not in absent]
        seat = present[0] if table.turn_passes[decision.phase, action] else decision.to_play
        event = table.chance is not None and bool(table.chance[decision.phase, action]) and self.rules.outcomes > 1
        new = Node(state, phase, seat, event and not node.chance, path_key(node.path, edge), reward, node, edge)
        new.legal, new.absent = np.flatnonzero(table.possible[phase]).tolist(), absent
        if not new.chance and decision.classes is not None:
            new.classes = self.inherited(decision, action)
        self.evaluate(new)
        return new

    # ---- chance ------------------------------------------------------------------------------------------

    def outcome_probabilities(self, node: Node) -> dict[int, float]:
        learned = softmax({c: float(x) for c, x in enumerate(self.world.outcome_logits[node.state])})
        source, codes = self.settings["chance_source"], range(1, self.rules.outcomes)
        if source == "learned":
            return learned
        if source == "uniform":
            return {0: learned[0]} | {c: (1 - learned[0]) / len(codes) for c in codes}
        left = self.cards_left(node)
        if not any(left):
            return learned
        return {0: learned[0]} | {c: (1 - learned[0]) * left[c - 1] / sum(left) for c in codes}

    def pool(self, chance: Node) -> int:
        assert chance.up is not None
        table = self.rules.table
        return 0 if table.pool is None else int(table.pool[chance.up.phase, chance.edge])

    def cards_left(self, node: Node) -> list[int]:
        counts = self.rules.counts
        assert counts is not None
        own = self.pool(node)
        left = list(counts[own])
        at: Node | None = node.up
        while at is not None and at.up is not None:
            if at.up.chance and at.edge > 0 and counts[self.pool(at.up)] == counts[own]:
                left[at.edge - 1] = max(0, left[at.edge - 1] - 1)
            at = at.up
        return left

    def outcome(self, node: Node) -> int:
        if self.settings["chance_choice"] == "prior":
            return max(node.legal, key=lambda c: node.prior[c] / (node.visits(c) + 1))
        made = sum(node.visits(c) for c in node.legal)
        place = ((node.path + GOLDEN * made) & MASK) / 2**64
        ends = np.cumsum([node.prior[c] for c in node.legal])
        return node.legal[min(int(np.searchsorted(ends, place, "right")), len(node.legal) - 1)]

    # ---- equivalent actions ------------------------------------------------------------------------------

    def slot(self, node: Node, slot: int) -> tuple[int, int, int]:
        """Seat, place on its board, and block of a slot counted from the mover's."""
        assert self.rules.actions is not None
        board, place = divmod(slot, len(self.rules.actions.block_of))
        return (node.to_play + board) % self.rules.players, place, int(self.rules.actions.block_of[place])

    def touched(self, node: Node, action: int) -> list[tuple[int, int, int, int]]:
        """Seat, place, block and role of the slots that an action touches."""
        table = self.rules.actions
        assert table is not None
        pairs = zip(table.slots[action].tolist(), table.roles[action].tolist(), strict=True)
        return [(*self.slot(node, slot), role) for slot, role in pairs if slot >= 0]

    def join(self, node: Node) -> None:
        node.copies = {a: [a] for a in node.legal}
        if node.classes is None:
            return
        assert self.rules.actions is not None
        per = len(self.rules.actions.block_of)
        first: dict[Any, int] = {}
        for a in node.legal:
            touched = self.touched(node, a)
            if not touched:
                continue
            blocks: dict[Any, list[Any]] = {}
            for seat, place, block, role in touched:
                blocks.setdefault((seat, block), []).append((seat, role, repr(node.classes[seat * per + place])))
            pattern = sorted(sorted(block) for block in blocks.values())
            same = first.setdefault((int(self.rules.actions.kind[a]), repr(pattern)), a)
            if same != a:
                node.copies[same] += node.copies.pop(a)
        node.legal = list(node.copies)
        logits = node.logit
        node.logit = {a: math.log(sum(math.exp(logits[c]) for c in node.copies[a])) for a in node.legal}

    def inherited(self, node: Node, action: int) -> list[Any]:
        assert node.classes is not None
        assert self.rules.actions is not None
        per = len(self.rules.actions.block_of)
        after = list(node.classes)
        touched = self.touched(node, action)
        for seat, _, block, _ in touched:
            for place in np.flatnonzero(self.rules.actions.block_of == block):
                at = seat * per + int(place)
                after[at] = ("beside", block, node.classes[at])
        for number, (seat, place, _, _) in enumerate(touched):
            after[seat * per + place] = ("touched", id(node), action, number)
        return after

    # ---- decisions ---------------------------------------------------------------------------------------

    def add_noise(self) -> None:
        noise, root = self.rules.noise, self.root
        self.noise = dict.fromkeys(root.legal, 0.0)
        if noise is None:
            return
        if self.settings["algorithm"] == "gumbel":
            self.noise = {a: noise[a] * self.settings["gumbel_scale"] for a in root.legal}
            return
        share = self.settings["dirichlet_fraction"]
        for a in root.legal:
            drawn = sum(noise[c] for c in root.copies[a])
            root.prior[a] = (1 - share) * root.prior[a] + share * drawn

    def judge(self, node: Node) -> int:
        return node.to_play if self.values > 1 else 0

    def q(self, node: Node, edge: int) -> float:
        child, v = node.children[edge], self.judge(node)
        return child.reward[v] + (1.0 if child.chance else self.settings["discount"]) * child.mean()[v]

    def puct(self, node: Node) -> int:
        own = float(node.mean()[self.judge(node)])
        known = {a: self.q(node, a) for a in node.children}
        lowest, highest = min(own, *known.values(), own), max(own, *known.values(), own)
        scale = 1 / max(highest - lowest, 1e-8)
        visits, base = len(node.returns), self.settings["pb_c_base"]
        weight = math.sqrt(visits) * (self.settings["pb_c_init"] + math.log((visits + base + 1) / base))
        unvisited = (own - lowest) * scale if self.settings["unvisited"] == "neutral" else 0.0

        def score(a: int) -> float:
            value = (known[a] - lowest) * scale if a in known else unvisited
            return value + weight * node.prior[a] / (1 + node.visits(a))

        return max(node.legal, key=score)

    def sigma(self, node: Node) -> dict[int, float]:
        visits = {a: node.visits(a) for a in node.legal}
        known = {a: self.q(node, a) for a in node.children}
        raw = node.returns[0][self.judge(node)]
        mass = sum(node.prior[a] for a in known)
        mean = sum(node.prior[a] * q for a, q in known.items()) / mass if known else 0.0
        total = sum(visits.values())
        mixed = (raw + total * mean) / (1 + total)
        kappa = self.settings["value_visits"]
        q = dict.fromkeys(node.legal, mixed)
        for a in known:
            q[a] += (known[a] - mixed) * visits[a] / (visits[a] + kappa)
        # The range contains the mixed value if some action is illegal, as untried actions do.
        every = [*q.values(), *([mixed] if len(q) < self.world.logits.shape[1] else [])]
        spread = max(max(every) - min(every), 1e-8) if self.settings["rescale_values"] else 1.0
        most = self.settings["visit_trust"] * max(visits.values())
        weight = (self.settings["maxvisit_init"] + most) * self.settings["value_scale"] / spread
        return {a: (x - min(every)) * weight for a, x in q.items()}

    def improved(self, node: Node) -> dict[int, float]:
        sigma = self.sigma(node)
        return softmax({a: node.logit[a] + sigma[a] for a in node.legal})

    def gumbel(self, node: Node) -> int:
        policy, total = self.improved(node), sum(node.visits(a) for a in node.legal)
        return max(node.legal, key=lambda a: policy[a] - node.visits(a) / (1 + total))

    def best_considered(self, visits: int) -> int:
        sigma, root = self.sigma(self.root), self.root
        candidates = [a for a in root.legal if root.visits(a) == visits]
        return max(candidates, key=lambda a: self.noise[a] + root.logit[a] + sigma[a])

    def simulate(self, made: int) -> None:
        node = self.root
        while True:
            if node.chance:
                edge = self.outcome(node)
            elif self.settings["algorithm"] == "puct":
                edge = self.puct(node)
            else:
                edge = self.best_considered(self.schedule[made]) if node is self.root else self.gumbel(node)
            if edge not in node.children:
                break
            node = node.children[edge]
        node.children[edge] = leaf = self.child(node, edge)
        returns, at = np.array(leaf.returns[0]), leaf
        while at.up is not None:
            discount = 1.0 if at.chance else self.settings["discount"]
            returns = np.array(at.reward) + discount * returns
            if at.up.chance and self.settings["correct_luck"]:  # own values come first in `returns`
                as_expected = np.array(at.reward) + discount * np.array(at.returns[0])
                returns = returns - as_expected + np.array(at.up.returns[0])
            at = at.up
            at.returns.append(list(returns))

    # ---- results -----------------------------------------------------------------------------------------

    def results(self, actions: int) -> dict[str, NDArray[np.float64]]:
        """Policy, visits and q of all actions, and values, as `mcts.Results` has them."""
        root = self.root
        visits = {a: root.visits(a) for a in root.legal}
        total = sum(visits.values())
        if self.settings["algorithm"] == "gumbel":
            policy = self.improved(root)
        else:
            policy = {a: visits[a] / total for a in root.legal} if total else root.prior
        found = {name: np.zeros(actions) for name in ("policy", "visits", "q")}
        for a, copies in root.copies.items():
            found["policy"][copies] = policy[a] / len(copies)
            found["visits"][copies] = visits[a] / len(copies)
            found["q"][copies] = self.q(root, a) if visits[a] else 0.0
        return found | {"values": root.mean()}

    def action(self) -> int:
        """The action recommended by gumbel."""
        return self.best_considered(max(self.root.visits(a) for a in self.root.legal))
