"""Exhaustive search of one turn with the real rules and exact chances, judged by a network where the turn ends.

The player to move tries every action of its turn; chance events are summed over with the game's odds; once the turn has
passed, the network's value of the real position counts, and rewards of the turn are added. What no single event covers
(cards turned over at the end of a round, the deal of the next one) is sampled in several worlds. For games without
lasting private cards only: there the odds are exact, and the next player's observation tells nothing that the searching
player does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

import env
from muzero.agents.situation import Situation
from muzero.config.fields import require
from muzero.model.interface import BaseNetwork

if TYPE_CHECKING:
    from muzero.search.judge import NativeValues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROWS = 256  # decisions that are searched at a time
_AT_ONCE = 1024  # positions after an action that are looked at at a time
_GRAIN = 128  # numbers of copied tables are rounded up to multiples of this


class TurnSearch:
    """Values of actions by exhaustive search of the rest of the player's turn.

    Args:
      network: network whose values count where the turn ends.
      worlds: number of samples of the end of a round.
      native: native judge of positions by the network; None asks it in torch.
    """

    def __init__(self, network: BaseNetwork, worlds: int = 16, native: NativeValues | None = None) -> None:
        require(worlds >= 1, "worlds", "1 or more", worlds)
        expected = f"none in {network.spec.game}, where the next one to decide sees another hand"
        require(not network.spec.private, "network", expected, "one that reads hands")
        self.network, self.worlds = network, worlds
        self._native = native
        self._device = next(network.parameters()).device
        self._copies: dict[tuple[str, int], env.VecEnv] = {}
        spec = network.spec
        self._slots, self._roles = spec.action_slots, spec.action_roles
        shape = (spec.num_roles, spec.num_players, max(1, spec.num_slots))
        rng = np.random.default_rng(0)  # names of (role, board, class), whose sums tell actions apart
        self._names = rng.integers(2**63, size=shape, dtype=np.uint64)
        self._kind_names = rng.integers(2**63, size=spec.num_kinds, dtype=np.uint64)[spec.kinds]

    def action_values(self, tables: env.VecEnv, rows: Ints) -> Floats:
        """Values [n, A] of the actions for the players to move; NaN where illegal or equivalent to an earlier action.

        Args:
          tables: environment of the tables, which stay as they are.
          rows: [n] indices of tables whose games are not over.
        """
        parts = [np.zeros((0, tables.num_actions))]
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            movers = tables.to_play[some].copy()
            known = self._copy(tables, some, "root")
            # From here on hidden cards are samples of what the player knows.
            known.determinize(_fill(movers, known.num_envs), np.zeros(known.num_envs, np.uint64))
            parts.append(self._actions(known, np.arange(len(some)), movers, 0))
        return np.concatenate(parts)

    def _actions(self, tables: env.VecEnv, rows: Ints, movers: NDArray[np.int8], depth: int) -> Floats:
        """Values [n, A] of the actions at some tables for their movers [n]."""
        here = self._copy(tables, rows, f"before {depth}")
        legal = here.legal[: len(rows)] & self._first_of_kind(here)[: len(rows)]
        where, act, code, chance = [], [], [], []
        for a in np.flatnonzero(legal.any(0)):
            asked = np.flatnonzero(legal[:, a])
            actions = np.full(here.num_envs, env.SKIP, np.int64)
            actions[asked] = a
            odds = here.odds(actions)[asked].astype(np.float64)
            row, outcome = np.nonzero(odds)
            where.append(asked[row])
            act.append(np.full(len(row), a))
            code.append(outcome)
            chance.append(odds[row, outcome] / odds.sum(1)[row])
        at, action, outcome, weight = (np.concatenate(part) for part in (where, act, code, chance))
        values = np.empty(len(at))
        for start in range(0, len(at), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            values[part] = self._after(here, at[part], action[part], outcome[part], movers[at[part]], depth)
        cell = at * legal.shape[1] + action
        sums = np.bincount(cell, values * weight, legal.size).reshape(legal.shape)
        return np.where(legal, sums, np.nan)

    def _after(
        self, here: env.VecEnv, at: Ints, action: Ints, outcome: Ints, movers: NDArray[np.int8], depth: int
    ) -> Floats:
        """Values [m] of the positions after actions with told outcomes, rewards included."""
        count, index = len(at), np.arange(len(at))
        after = self._copy(here, at, f"after {depth}")
        _step(after, action, outcome)
        values = after.rewards[index, movers].astype(np.float64)
        ended = after.done[:count] | (after.scores[:count] != here.scores[at]).any(1)
        passed = np.flatnonzero(~ended & (after.to_play[:count] != movers))
        going = np.flatnonzero(~ended & (after.to_play[:count] == movers))
        values[passed] += self._judge(after, passed, movers[passed])
        if len(going):
            values[going] += np.nanmax(self._actions(after, going, movers[going], depth + 1), 1)
        over = np.flatnonzero(ended)
        for start in range(0, len(over), max(1, _AT_ONCE // self.worlds)):
            some = over[start : start + max(1, _AT_ONCE // self.worlds)]
            values[some] = self._ends(here, at[some], action[some], outcome[some], movers[some])
        return values

    def _ends(self, here: env.VecEnv, at: Ints, action: Ints, outcome: Ints, movers: NDArray[np.int8]) -> Floats:
        """Mean values [m] of actions that end a round, over worlds with other hidden cards."""
        times, count = self.worlds, len(at) * self.worlds
        owners = movers.repeat(times)
        worlds = self._copy(here, at.repeat(times), "ends")
        numbers = np.tile(np.arange(1, times + 1, dtype=np.uint64), len(at))
        worlds.determinize(_fill(owners, worlds.num_envs), _fill(numbers, worlds.num_envs))
        _step(worlds, action.repeat(times), outcome.repeat(times))
        values = worlds.rewards[np.arange(count), owners].astype(np.float64)
        going = np.flatnonzero(~worlds.done[:count])
        values[going] += self._judge(worlds, going, owners[going])
        return np.asarray(values.reshape(-1, times).mean(1))

    @torch.inference_mode()
    def _judge(self, tables: env.VecEnv, rows: Ints, movers: NDArray[np.int8]) -> Floats:
        """Network's values [m] of positions for the seats `movers`."""
        if not len(rows):
            return np.zeros(0)
        obs = tables.obs[rows]
        if self._native is not None:
            values = self.network.support.expectation(self._native.judge(obs)[0])
        else:
            _, values = self.network.values_of_observation(torch.from_numpy(obs).to(self._device))
        seat = (movers.astype(np.int64) - tables.to_play[rows]) % tables.num_players
        found: Floats = values.double().cpu().numpy()[np.arange(len(rows)), seat]
        return found

    def _first_of_kind(self, tables: env.VecEnv) -> NDArray[np.bool_]:
        """Mask [B, A] of legal actions, the first of each set that do the same to slots which cannot be told apart."""
        classes, present = tables.slot_classes(), self._slots >= 0
        per_player = max(1, tables.num_slots // tables.num_players)
        slots = np.where(present, self._slots, 0)
        named = self._names[np.where(present, self._roles, 0), slots // per_player, classes[:, slots]]
        names: NDArray[np.uint64] = self._kind_names + np.where(present, named, np.uint64(0)).sum(2, dtype=np.uint64)
        first: NDArray[np.bool_] = np.ones(tables.legal.shape, bool)
        for a in range(1, first.shape[1]):
            first[:, a] = ~((names[:, :a] == names[:, a : a + 1]) & tables.legal[:, :a]).any(1)
        return first

    def _copy(self, source: env.VecEnv, rows: Ints, use: str) -> env.VecEnv:
        """Copies of tables, at least as many as `rows`, for one use at a time; surplus tables repeat others."""
        size = -(-len(rows) // _GRAIN) * _GRAIN
        key = f"{use} {source.num_players} {source.rules}", size
        if key not in self._copies:
            make = (source.game, size, source.num_players, source.rules)
            self._copies[key] = env.make(*make, auto_reset=False)
        self._copies[key].copy_from(source, _fill(rows, size))
        return self._copies[key]


def _fill(numbers: NDArray[Any], size: int) -> NDArray[Any]:
    """Repeat numbers until there are `size`."""
    return np.resize(numbers, size)


def _step(tables: env.VecEnv, actions: Ints, outcomes: Ints) -> None:
    """Step the first tables by actions with told outcomes; the others stay as they are."""
    given, told = np.full(tables.num_envs, env.SKIP, np.int64), np.zeros(tables.num_envs, np.int64)
    given[: len(actions)], told[: len(actions)] = actions, outcomes
    tables.step(given, told)


class Expectimax:
    """Agent that plays the best action by `TurnSearch`.

    Args:
      network: network whose values count where the turn ends.
      worlds: number of samples of the end of a round.
      native: native judge of positions by the network; None asks it in torch.
      name: name of the agent in messages.
    """

    def __init__(
        self,
        network: BaseNetwork,
        worlds: int = 16,
        native: NativeValues | None = None,
        *,
        name: str = "expectimax",
    ) -> None:
        self.name, self.turns = name, TurnSearch(network, worlds, native)

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`."""
        actions = np.asarray(situation.legal.argmax(1))
        free = np.flatnonzero(situation.legal.sum(1) > 1)
        if len(free):
            values = self.turns.action_values(situation.tables, situation.rows[free])
            actions[free] = np.nan_to_num(values, nan=-np.inf).argmax(1)
        return actions
