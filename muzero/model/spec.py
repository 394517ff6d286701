"""Description of a game for networks and search, built from what the game itself declares. No game is named here.

A *slot* is a place that actions are aimed at: a position of a player's board, a hand card, a pile. Every player has the
same slots. A *block* is a set of slots of one player whose order has no meaning, and which may trade places with the
player's other blocks: a column in Skyjo. An *action* touches some slots, each in a *role* (the place that a card
leaves, the place that it goes to), and has a *kind* (draw, place, pass).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import env
from mcts import PhaseTable
from muzero.config.fields import require

if TYPE_CHECKING:
    from muzero.config import ModelConfig


@dataclass(frozen=True)
class Group:
    """Tokens of one sort in an observation row; together they are a matrix [count, fields] of integers.

    Attributes:
      name: name of the group.
      offset: index of the matrix's first number in the row.
      count: number of tokens.
      fields: names of a token's fields.
      vocabulary: number of categories of each field.
      place: whether each field names a slot; a symmetric encoder must not read such fields.
      seat: whether each field names the token's player, counted from the observer.
      card: whether each field shows a card, coded as the cards in slots are.
      absent: whether each field is 1 if the token's player has left the round, so that the turn passes over it.
      slots: whether the tokens are slots.
      per_player: whether the tokens are ordered by seat, starting with the observer's.
      owner_only: whether only the owner sees the cards in some of the slots.
    """

    name: str
    offset: int
    count: int
    fields: tuple[str, ...]
    vocabulary: tuple[int, ...]
    place: tuple[bool, ...]
    seat: tuple[bool, ...]
    card: tuple[bool, ...]
    absent: tuple[bool, ...]
    slots: bool
    per_player: bool
    owner_only: bool


@dataclass(frozen=True)
class GameSpec:
    """Description of a game for a number of players. Instances are shared, so their arrays are read-only.

    Attributes:
      game: name of the game.
      version: version of the game's rules and observations.
      num_players: number of players, P.
      num_actions: number of actions, A.
      groups: groups of tokens in an observation row, the counts of unseen cards included.
      phase_table: table of the actions that can be legal in each phase, the next phase, and whether the turn passes.
      kinds: [A] kind of each action.
      action_slots: [A, K] slots that each action touches, filled up with -1.
      action_roles: [A, K] role of each of these slots, filled up with -1.
      blocks: [blocks, size] slots of each symmetric block of a player.
      num_outcomes: number of outcome codes of the game's chance events, O; code 0 stands for none.
      public_outcomes: [phases, A] whether all players see the outcome of the event that follows an action.
    """

    game: str
    version: int
    num_players: int
    num_actions: int
    groups: tuple[Group, ...]
    phase_table: PhaseTable
    kinds: NDArray[np.int64]
    action_slots: NDArray[np.int64]
    action_roles: NDArray[np.int64]
    blocks: NDArray[np.int64]
    num_outcomes: int
    public_outcomes: NDArray[np.bool_]

    @staticmethod
    @cache
    def of(game: str, num_players: int) -> GameSpec:
        """Spec of a game under its official rules; the same arguments give the same object."""
        return GameSpec.of_description(env.describe(game, num_players))

    @staticmethod
    def of_tables(tables: env.VecEnv) -> GameSpec:
        """Spec of the game that is played at existing tables."""
        return GameSpec.of_description(tables.info)

    @staticmethod
    def of_description(info: env.GameDescription) -> GameSpec:
        """Spec of a game from its description."""
        groups = tuple(
            Group(
                g.name,
                g.offset,
                g.count,
                tuple(field.name for field in g.fields),
                tuple(field.vocabulary for field in g.fields),
                tuple(field.place for field in g.fields),
                tuple(field.seat for field in g.fields),
                tuple(field.card for field in g.fields),
                tuple(field.absent for field in g.fields),
                g.slots,
                g.per_player,
                g.owner_only,
            )
            for g in info.groups
        )
        slots_show = [any(g.card) for g in groups if g.slots]
        others_show = any(any(g.card) for g in groups if not g.slots)
        consistent = all(slots_show) or not (others_show or any(slots_show))
        expected = "one in every group of slots, or none at all"
        require(consistent, f"{info.name}, fields that show a card", expected, slots_show)
        rules = info.phase_table
        leaving = any(rule.leaves_round for row in rules for rule in row)
        shown = [g.count if g.per_player else 0 for g in groups for absent in g.absent if absent]
        expected = "one per player if an action leaves the round, otherwise none"
        require(shown == [info.num_players] * leaving, f"{info.name}, fields that show absent players", expected, shown)
        widest = max(1, *(len(shape.slots) for shape in info.action_shapes))
        touched = np.full((2, info.num_actions, widest), -1, np.int64)
        for action, shape in enumerate(info.action_shapes):
            for k, pair in enumerate(shape.slots):
                touched[:, action, k] = pair
        kinds = np.array([shape.kind for shape in info.action_shapes])
        blocks = np.array(info.symmetric_blocks, np.int64)
        for array in (touched, kinds, blocks):
            array.setflags(write=False)
        return GameSpec(
            game=info.name,
            version=info.version,
            num_players=info.num_players,
            num_actions=info.num_actions,
            groups=groups,
            phase_table=PhaseTable(
                np.array([[rule.possible for rule in row] for row in rules]),
                np.array([[rule.next_phase for rule in row] for row in rules], np.uint8),
                np.array([[rule.turn_passes for rule in row] for row in rules]),
                np.array([[rule.possible for rule in row] for row in info.chance_rules]),
                np.array([[rule.pool for rule in row] for row in info.chance_rules]),
                np.array([[rule.leaves_round for rule in row] for row in rules]) if leaving else None,
                np.array([[rule.last_phase for rule in row] for row in rules], np.uint8) if leaving else None,
            ),
            kinds=kinds,
            action_slots=touched[0],
            action_roles=touched[1],
            blocks=blocks,
            num_outcomes=info.num_outcomes,
            public_outcomes=np.array([[rule.seen_by_all for rule in row] for row in info.chance_rules]),
        )

    def outcomes_told(self, config: ModelConfig) -> int:
        """Number of outcome codes that a network's dynamics are told, code 0 included; 1 if they are told none.

        With `model.chance=game` the codes are the game's outcomes, with `learned` those of the network's encoder.
        """
        return {"none": 1, "game": self.num_outcomes, "learned": 1 + config.codes}[config.chance]

    def phases_for(self, config: ModelConfig) -> PhaseTable:
        """Phase table with the chance events that a network is told of: with learned codes, one after every action."""
        table = self.phase_table
        return replace(table, chance=np.ones_like(table.possible)) if config.chance == "learned" else table

    @cached_property
    def width(self) -> int:
        """Number of integers in an observation row, W."""
        return sum(group.count * len(group.vocabulary) for group in self.groups)

    @cached_property
    def num_slots(self) -> int:
        """Number of slots of all players together, S."""
        return sum(group.count for group in self.groups if group.slots)

    @cached_property
    def shared_cards(self) -> tuple[tuple[Group, int], ...]:
        """Group and field of each visible card that belongs to no player, such as the top of a pile."""
        shared = [g for g in self.groups if not g.slots and g.count == 1]
        return tuple((g, f) for g in shared for f, card in enumerate(g.card) if card)

    @cached_property
    def private(self) -> bool:
        """Whether some slots are seen by their owner alone, so that one player's view is no target for another's."""
        return any(group.owner_only for group in self.groups)

    @cached_property
    def counts(self) -> slice | None:
        """Columns of an observation row that count unseen cards, by pool and kind; None if there are none."""
        found = [g for g in self.groups if g.name == "counts"]
        return slice(found[0].offset, found[0].offset + found[0].count * len(found[0].fields)) if found else None

    @cached_property
    def absent(self) -> slice | None:
        """Columns of an observation row that show which players have left the round, from the observer on; None if none
        can."""
        for g in self.groups:
            if any(g.absent):
                first = g.offset + g.absent.index(True)
                return slice(first, g.offset + g.count * len(g.fields), len(g.fields))
        return None

    @cached_property
    def num_kinds(self) -> int:
        """Number of kinds of actions."""
        return int(self.kinds.max()) + 1

    @cached_property
    def num_roles(self) -> int:
        """Number of roles that slots have in actions."""
        return int(self.action_roles.max()) + 1
