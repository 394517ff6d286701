"""Descriptions of the games: everything that a game declares about itself, without dealing a table."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from env import _native

Rules = str | Mapping[str, Any]
"""Rule set: the name of one, or a mapping of options with the key "preset" for the named one that they change."""

RuleValue = bool | int | float | str | list[int]

DEFAULT_BOT = "greedy"
"""Default opponent in games that have a bot of this name; in others it is their first bot."""


def games() -> list[str]:
    """Names of all games."""
    return _native.games()


def describe(game: str, num_players: int = 2, rules: Rules = "official", *, counts: bool = True) -> GameDescription:
    """Description of a game for a number of players and a rule set; the same arguments give the same object.

    Args:
      game: name of the game, one of `games()`.
      num_players: players at the table, P.
      rules: name of a rule set, or a mapping of options with the key "preset" for the rule set that they change.
      counts: describe observations with the tokens that count unseen cards.
    """
    preset, options = split_rules(rules)
    key = tuple((name, type(value), tuple(value) if isinstance(value, list) else value) for name, value in options)
    return _describe(game, num_players, preset, key, counts)


@lru_cache(maxsize=256)
def _describe(
    game: str, num_players: int, preset: str, options: tuple[tuple[str, type, Any], ...], counts: bool
) -> GameDescription:
    """Cached part of `describe`.

    Options carry their types, because 1, 1.0 and true are equal as keys and different as values of a rule.
    """
    rules = [(name, kind(value)) for name, kind, value in options]
    info = _native.describe(game, num_players=num_players, preset=preset, rules=rules, counts=counts)
    return GameDescription(
        name=info.name,
        version=info.version,
        num_players=info.num_players,
        min_players=info.min_players,
        max_players=info.max_players,
        why_players=info.why_players,
        counts=counts,
        num_actions=info.num_actions,
        action_names=tuple(info.action_names),
        action_shapes=tuple(info.action_shapes),
        num_phases=info.num_phases,
        phase_names=tuple(info.phase_names),
        phase_table=tuple(tuple(row) for row in info.phase_table),
        groups=tuple(info.groups),
        width=info.width,
        num_pools=info.num_pools,
        num_card_kinds=info.num_card_kinds,
        num_outcomes=info.num_outcomes,
        num_draws=info.num_draws,
        chance_rules=tuple(tuple(row) for row in info.chance_rules),
        symmetric=info.symmetric,
        symmetric_blocks=tuple(tuple(block) for block in info.symmetric_blocks),
        score_scale=info.score_scale,
        rules=tuple(info.rules),
        presets=tuple(info.presets),
        bots=tuple(info.bots),
        stat_names=tuple(info.stat_names),
        state_bytes=info.state_bytes,
    )


@dataclass(frozen=True)
class GameDescription:
    """A game for a number of players and a rule set. Equal arguments of `describe` give the same object.

    Attributes:
      name: name of the game.
      version: version of the game's rules and observations.
      num_players: players at the table, P.
      min_players, max_players: numbers of players that the game admits.
      why_players: reason why there are not fewer or more players.
      counts: whether observations include the tokens that count unseen cards.
      num_actions: number of actions, A.
      action_names: [A] names of the actions.
      action_shapes: [A] kind of each action and the slots that it is about, as (slot, role).
      num_phases: number of phases, kinds of decisions.
      phase_names: [phases] names of the phases.
      phase_table: [phases][A] whether the action can be legal in the phase, the phase that usually follows, and whether
        the turn passes.
      groups: groups of tokens in an observation row, each with its offset, count and fields.
      width: numbers in an observation row, W.
      num_pools, num_card_kinds: shape of `VecEnv.unseen_counts` per table.
      num_outcomes: number of outcome codes of chance events, O: 0 for no event or one that was not seen, 1 to O - 1 for
        the kinds of cards in the order of `VecEnv.unseen_counts`; 1 if no step shows a hidden card.
      num_draws: most cards that a step deals to one hand at once, D; 0 if these are single outcomes.
      chance_rules: [phases][A] whether an event may follow the action, the pool of `VecEnv.unseen_counts` that its card
        is drawn from, and whether a search may let all players know its outcome.
      symmetric: whether `VecEnv.relabel` applies: the order of slots has no meaning.
      symmetric_blocks: slots of a player that may trade places: whole blocks, and the slots inside a block.
      score_scale: points that pay one unit of reward at round_reward = 1.
      rules: every rule option with its name, meaning, expected values, default and value in this rule set.
      presets: names of the rule sets that have one.
      bots: hand-written players, each with its name, idea and parameters.
      stat_names: [S] columns of `VecEnv.stats`.
      state_bytes: size of one table's state.
    """

    name: str
    version: int
    num_players: int
    min_players: int
    max_players: int
    why_players: str
    counts: bool
    num_actions: int
    action_names: tuple[str, ...]
    action_shapes: tuple[_native.ActionShape, ...] = field(repr=False)
    num_phases: int
    phase_names: tuple[str, ...]
    phase_table: tuple[tuple[_native.PhaseRule, ...], ...] = field(repr=False)
    groups: tuple[_native.TokenGroup, ...] = field(repr=False)
    width: int
    num_pools: int
    num_card_kinds: int
    num_outcomes: int
    num_draws: int
    chance_rules: tuple[tuple[_native.ChanceRule, ...], ...] = field(repr=False)
    symmetric: bool
    symmetric_blocks: tuple[tuple[int, ...], ...]
    score_scale: int
    rules: tuple[_native.RuleDoc, ...] = field(repr=False)
    presets: tuple[str, ...]
    bots: tuple[_native.BotDoc, ...] = field(repr=False)
    stat_names: tuple[str, ...]
    state_bytes: int

    @property
    def rule_values(self) -> dict[str, RuleValue]:
        """Values of all options in this rule set, by name."""
        return {rule.name: rule.value for rule in self.rules}

    @property
    def default_bot(self) -> str:
        """Name of the bot that plays where none is named."""
        names = [bot.name for bot in self.bots]
        return DEFAULT_BOT if DEFAULT_BOT in names else names[0]

    def decode(self, row: ArrayLike) -> dict[str, list[dict[str, int]]]:
        """An observation row [W] by name: group -> tokens -> field -> value."""
        numbers = np.asarray(row)
        if numbers.shape != (self.width,):
            raise ValueError(f"row: expected {self.width} numbers, got an array of shape {numbers.shape}")
        decoded = {}
        for group in self.groups:
            names = [each.name for each in group.fields]
            block = numbers[group.offset :][: group.count * len(names)].reshape(group.count, len(names))
            decoded[group.name] = [dict(zip(names, token, strict=True)) for token in block.tolist()]
        return decoded


class SlotClasses:
    """Classes of slots that an observer cannot tell apart, computed from observation rows; see `VecEnv.slot_classes`.

    Args:
      game: name of the game.
      num_players: players at the table.
    """

    def __init__(self, game: str, num_players: int) -> None:
        info = _native.describe(game, num_players=num_players, preset="official", rules=[], counts=True)
        self._native = _native.SlotClasses(info)

    def __call__(self, rows: NDArray[np.int16]) -> NDArray[np.uint8]:
        """Classes [N, S] of the slots of all players that observation rows [N, W] show, the observer's first."""
        out = np.empty((len(rows), self._native.slots), np.uint8)
        self._native.write(np.ascontiguousarray(rows), out)
        return out


def split_rules(rules: Rules) -> tuple[str, list[tuple[str, RuleValue]]]:
    """Name of a rule set and the options that change it, as the core takes them."""
    options = {"preset": rules} if isinstance(rules, str) else dict(rules)
    preset = options.pop("preset", "official")
    if not isinstance(preset, str):
        raise ValueError(f"rule 'preset': expected the name of a rule set, got {preset!r}")
    return preset, [(name, _rule_value(name, value)) for name, value in options.items()]


def _rule_value(name: str, value: Any) -> RuleValue:
    """A rule's value as the core takes it; lists may be any sequence of integers."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | float | str) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, np.ndarray | Sequence):
        with suppress(TypeError):
            whole = [operator.index(item) for item in value]
            if all(abs(item) < 2**63 for item in whole):
                return whole
    raise ValueError(f"rule {name!r}: expected a number, a word, true or false, or a list of integers, got {value!r}")
