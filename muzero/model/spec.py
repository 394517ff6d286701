"""What networks and search need to know of a game, taken from what the game declares. No game is named here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import env
from mcts import PhaseTable
from muzero.config import require


@dataclass(frozen=True)
class Group:
    """A block of tokens in an observation row.

    Attributes:
      name: of the group.
      offset: of the block [count, fields] in the row.
      count: tokens.
      fields: their names.
      vocabulary: categories of each field.
      place: fields that name a slot, which a symmetric encoder must not read.
      seat: fields that name the token's player, counted from the observer.
      card: fields that show a card, in the code of the slots' cards.
      slots: whether its tokens are slots.
      per_player: whether its tokens stand seat by seat from the observer's.
      owner_only: whether some of its slots are seen by their player alone.
    """

    name: str
    offset: int
    count: int
    fields: tuple[str, ...]
    vocabulary: tuple[int, ...]
    place: tuple[bool, ...]
    seat: tuple[bool, ...]
    card: tuple[bool, ...]
    slots: bool
    per_player: bool
    owner_only: bool


@dataclass(frozen=True)
class GameSpec:
    """A game for a number of players.

    Attributes:
      game: its name.
      version: of its rules and observations.
      num_players: P.
      num_actions: A.
      groups: of observation rows, counts included.
      phase_table: for the search.
      kinds: [A] kind of each action.
      action_slots: [A, K] slots that each action touches, -1 for none.
      action_roles: [A, K] the role each has in it, -1 for none.
      blocks: [blocks, slots] symmetric blocks of a player's slots.
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

    @staticmethod
    def of(game: str, num_players: int) -> GameSpec:
        """Asks the environment."""
        return GameSpec.of_tables(env.make(game, 1, num_players))

    @staticmethod
    def of_tables(tables: env.VecEnv) -> GameSpec:
        """The spec of an environment that exists."""
        info = tables.info
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
                g.slots,
                g.per_player,
                g.owner_only,
            )
            for g in info.groups
        )
        shows = [any(g.card) for g in groups if g.slots]
        shared = any(any(g.card) for g in groups if not g.slots)
        good = all(shows) if shared or any(shows) else True
        require(good, f"{tables.game}, fields that show a card", "one in every group of slots, or none at all", shows)
        rules = info.phase_table
        widest = max(1, *(len(shape.slots) for shape in info.action_shapes))
        touched = np.full((2, info.num_actions, widest), -1, np.int64)
        for action, shape in enumerate(info.action_shapes):
            for k, pair in enumerate(shape.slots):
                touched[:, action, k] = pair
        return GameSpec(
            game=tables.game,
            version=info.version,
            num_players=tables.num_players,
            num_actions=info.num_actions,
            groups=groups,
            phase_table=PhaseTable(
                np.array([[rule.possible for rule in row] for row in rules]),
                np.array([[rule.next_phase for rule in row] for row in rules], np.uint8),
                np.array([[rule.turn_passes for rule in row] for row in rules]),
            ),
            kinds=np.array([shape.kind for shape in info.action_shapes]),
            action_slots=touched[0],
            action_roles=touched[1],
            blocks=np.array(info.symmetric_blocks, np.int64),
        )

    @cached_property
    def width(self) -> int:
        """Numbers in an observation row."""
        return sum(group.count * len(group.vocabulary) for group in self.groups)

    @cached_property
    def num_slots(self) -> int:
        """Slots of all players."""
        return sum(group.count for group in self.groups if group.slots)

    @cached_property
    def shared_cards(self) -> tuple[tuple[Group, int], ...]:
        """Group and field of the cards that belong to no player: in hand, on a pile."""
        shared = [g for g in self.groups if not g.slots and g.count == 1]
        return tuple((g, f) for g in shared for f, card in enumerate(g.card) if card)

    @cached_property
    def private(self) -> bool:
        """Whether players see different things of the same slots: what one sees is then no target for another."""
        return any(group.owner_only for group in self.groups)

    @cached_property
    def num_kinds(self) -> int:
        """Kinds of actions."""
        return int(self.kinds.max()) + 1

    @cached_property
    def num_roles(self) -> int:
        """Roles that slots have in actions."""
        return int(self.action_roles.max()) + 1
