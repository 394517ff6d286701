"""Vectorised tables: names, shapes and defaults around the C++ core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from env import _native
from env.description import Rules, describe, split_rules
from env.drawing import Drawable

SKIP: int = _native.SKIP
"""Action that leaves a table as it is."""

DEALER: int = _native.DEALER
"""Observer who knows what any player has seen: `VecEnv.determinize` deals what nobody has seen anew, exactly."""

# Limits of one call into the core, which does not notice Ctrl-C: a second or less.
_INTERRUPTIBLE = 1 << 22  # decisions per call
_GAMES_AT_ONCE = 1 << 14
_CACHE_LINE = 64  # bytes


def make(
    game: str,
    num_envs: int = 1,
    num_players: int = 2,
    rules: Rules = "official",
    seed: int = 0,
    *,
    threads: int = 1,
    auto_reset: bool = True,
    counts: bool = True,
    buffers: Mapping[str, NDArray[Any]] | None = None,
) -> VecEnv:
    """A batch of tables.

    Args:
      game: name of the game, one of `games()`.
      num_envs: tables in the batch, B.
      num_players: players at each table, P.
      rules: name of a rule set, or a mapping of options with the key "preset" for the rule set that they change.
      seed: number that names the deals, with a table's index and its episode number; the batch size has no influence.
      threads: threads that share the batch.
      auto_reset: start a new episode in the step that ends one. Otherwise a finished table accepts only
        `SKIP` until `reset`.
      counts: include the tokens that count unseen cards in observations.
      buffers: the caller's arrays to write to, by name (see `VecEnv`); arrays that are not given are allocated.
    """
    return VecEnv(game, num_envs, num_players, rules, seed, threads, auto_reset, counts, buffers or {})


def aligned_zeros(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Array of zeros that begins at a cache line, so that threads with parts of their own never share a line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class Records:
    """Finished games, one row each.

    Attributes:
      scores: [N, P] final totals by seat.
      truncated: [N] whether the game was cut off by `max_decisions`.
      stats: name -> [N] statistics that the game reports of an episode.
    """

    scores: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    stats: dict[str, NDArray[np.int32]] = field(repr=False)


class Bot:
    """A hand-written player of one game and number of players; see `VecEnv.bot`."""

    def __init__(self, native: _native.Bot, name: str, seed: int) -> None:
        self.native = native
        self.name = name
        self.seed = seed
        self._calls = 0

    def act(self, obs: NDArray[np.int16], legal: NDArray[np.bool_] | NDArray[np.uint64]) -> NDArray[np.int64]:
        """Actions [N] for observation rows [N, W]; `SKIP` where nothing is legal.

        Args:
          obs: [N, W] int16, observations of the players to move.
          legal: masks of legal actions, [N, A] bool or packed as [N] uint64 (bit a = action a).
        """
        out = np.empty(len(obs), np.int64)
        self.native.act(obs, legal, out, self.seed, self._calls)
        self._calls += 1
        return out

    def __repr__(self) -> str:
        return f"Bot({self.name!r})"


def parse_bot(text: str) -> tuple[str, dict[str, float]]:
    """Splits "threshold(t=2, epsilon=0.1)" into its name and parameters."""
    name, bracket, rest = text.partition("(")
    if bracket and not rest.endswith(")"):
        raise ValueError(f"bot {text!r}: expected NAME or NAME(parameter=number, ...)")
    parameters: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in rest.rstrip(")").split(","))):
        key, equals, value = item.partition("=")
        try:
            parameters[key.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(f"bot {text!r}: expected parameter=number, got {item!r}")
    return name.strip(), parameters


def _require_seed(seed: int) -> int:
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: expected 0 to 2**64 - 1, got {seed}")
    return seed


class VecEnv(Drawable):
    """B tables of one game in lockstep, results in arrays that are written in place at each step.

    Attributes (each can be an array of the caller's, through `buffers`):
      obs: [B, W] int16, what the player to move sees; `groups` says what is where.
      legal: [B, A] bool, actions open to the player to move; all False when the game is over.
      legal_bits: [B] uint64, the mask of legal actions packed: bit a is action a.
      to_play: [B] int8, seat to move (once the game is over: the last one that moved).
      phase: [B] int8, kind of decision, an index of `phase_names`.
      rewards: [B, P] float32, rewards of the last step.
      scores: [B, P] int32, match totals.
      ranks: [B, P] int8, 1 = best, ties share the better rank.
      outcome: [B] int8, code of the last step's chance event as the player who acted saw it; 0 for none.
      done, truncated: [B] bool, whether the last step ended the episode, and whether `max_decisions` did.
      stats: [B, S] int32, columns named by `stat_names`; written when an episode ends.
    With `auto_reset`, rewards to stats describe the episode that ended, the other arrays the one that begins. `info` is
    the game's `GameDescription`.
    """

    obs: NDArray[np.int16]
    legal: NDArray[np.bool_]
    legal_bits: NDArray[np.uint64]
    to_play: NDArray[np.int8]
    phase: NDArray[np.int8]
    rewards: NDArray[np.float32]
    scores: NDArray[np.int32]
    ranks: NDArray[np.int8]
    outcome: NDArray[np.int8]
    done: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    stats: NDArray[np.int32]

    def __init__(
        self,
        game: str,
        num_envs: int,
        num_players: int,
        rules: Rules,
        seed: int,
        threads: int,
        auto_reset: bool,
        counts: bool,
        buffers: Mapping[str, NDArray[Any]],
    ) -> None:
        preset, options = split_rules(rules)
        _require_seed(seed)
        self._native = _native.Env(
            game,
            num_envs=num_envs,
            num_players=num_players,
            preset=preset,
            rules=options,
            seed=seed,
            threads=threads,
            auto_reset=auto_reset,
            counts=counts,
        )
        self.info = info = describe(game, num_players, rules, counts=counts)
        self.game = game
        self.num_envs = num_envs
        self.num_players = num_players
        self.seed = seed
        self.auto_reset = auto_reset
        self.counts = counts
        self.num_actions = info.num_actions
        self.num_phases = info.num_phases
        self.num_slots = num_players * sum(map(len, info.symmetric_blocks))
        self.width = info.width
        self.groups = info.groups
        self.action_names = info.action_names
        self.phase_names = info.phase_names
        self.stat_names = info.stat_names
        self.rules: dict[str, Any] = info.rule_values

        B, P = num_envs, num_players
        shapes: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
            "obs": ((B, self.width), np.int16),
            "legal": ((B, self.num_actions), np.bool_),
            "legal_bits": ((B,), np.uint64),
            "to_play": ((B,), np.int8),
            "phase": ((B,), np.int8),
            "rewards": ((B, P), np.float32),
            "scores": ((B, P), np.int32),
            "ranks": ((B, P), np.int8),
            "outcome": ((B,), np.int8),
            "done": ((B,), np.bool_),
            "truncated": ((B,), np.bool_),
            "stats": ((B, len(self.stat_names)), np.int32),
        }
        wanted = {name: aligned_zeros(*shape) for name, shape in shapes.items()}
        wanted.update(buffers)
        self._native.bind(**wanted)
        for name, array in wanted.items():
            setattr(self, name, array)

    def reset(
        self,
        seed: int | None = None,
        *,
        deals: Sequence[int] | None = None,
        tables: Sequence[int] | None = None,
    ) -> None:
        """Starts new episodes at all tables, or at `tables`.

        Args:
          seed: seed of these tables until they are reset again; by default the environment's seed, so that a
            plain `reset()` deals the same games again.
          deals: number of the deal of each table, by default its own index. Tables with the same seed and deal get
            the same cards.
          tables: indices of the tables to reset.
        """
        chosen = range(self.num_envs) if tables is None else tables
        self._native.reset(
            self.seed if seed is None else _require_seed(seed),
            [int(i) for i in chosen],
            [int(d) for d in (chosen if deals is None else deals)],
        )

    def step(
        self,
        actions: NDArray[np.int64] | NDArray[np.int32] | Sequence[int],
        outcomes: NDArray[Any] | Sequence[int] | None = None,
    ) -> None:
        """Carries out one action [B] per table; `SKIP` leaves a table alone.

        Args:
          actions: [B] legal actions. An illegal one is a ValueError that names the table, and no table has moved.
          outcomes: [B] codes that the chance events of the actions must have, 0 for any. Hidden cards trade places so
            that the rest is a draw from the belief of the player to move. An outcome whose `odds` are 0 is a
            ValueError that names the table and what is possible, and no table has moved.
        """
        numbers = actions if isinstance(actions, np.ndarray) else np.asarray(actions)
        if outcomes is None:
            self._native.step(numbers)
        else:
            self._native.step_told(numbers, np.ascontiguousarray(outcomes, np.int64))

    def odds(self, actions: NDArray[np.int64] | NDArray[np.int32] | Sequence[int]) -> NDArray[np.float32]:
        """Probabilities [B, O] of the outcomes that an action [B] per table may have, for the player to move.

        Column 0 is 1 where no event follows, and where the action is `SKIP`. The game's page says whether the numbers
        are exact or those of a player who draws no conclusions from how others play.
        """
        out = np.empty((self.num_envs, self.info.num_outcomes), np.float32)
        self._native.odds(actions if isinstance(actions, np.ndarray) else np.asarray(actions), out)
        return out

    def draws(self, seat: int | NDArray[np.int8]) -> NDArray[np.int8]:
        """Codes [B, D] of the cards that the last step dealt to a seat's hand at once, then 0."""
        out = np.empty((self.num_envs, self.info.num_draws), np.int8)
        self._native.draws(self._seats(seat), out)
        return out

    def true_cards(self, seat: int | NDArray[np.int8]) -> NDArray[np.int8]:
        """Codes [B, S] of the cards in the slots of all players that a seat cannot see, 0 elsewhere.

        Slots are counted from the seat on, in the order of observations; codes are those of outcomes. These are labels
        for training: nothing that a player is shown may use them.
        """
        out = np.empty((self.num_envs, self.num_slots), np.int8)
        self._native.true_cards(self._seats(seat), out)
        return out

    def slot_classes(self) -> NDArray[np.uint8]:
        """Classes [B, S] of the slots of all players, counted from the player to move on.

        Two slots of a player have the same class if and only if they may trade places by the game's symmetries without
        a change of what the player to move sees: equal contents, in blocks of equal contents, with the same roles in
        actions. A class is the number of the first such slot of the player.
        """
        out = np.empty((self.num_envs, self.num_slots), np.uint8)
        self._native.slot_classes(out)
        return out

    def observe(self, seat: int | NDArray[np.int8], out: NDArray[np.int16] | None = None) -> NDArray[np.int16]:
        """Observations [B, W] of one seat at every table, or of seat[i] at table i."""
        out = np.empty((self.num_envs, self.width), np.int16) if out is None else out
        self._native.observe(self._seats(seat), out)
        return out

    def unseen_counts(self, seat: int | NDArray[np.int8]) -> NDArray[np.int16]:
        """Exact belief of a seat, [B, pools, kinds]; the game's page explains the pools."""
        out = np.empty((self.num_envs, self.info.num_pools, self.info.num_card_kinds), np.int16)
        self._native.unseen_counts(self._seats(seat), out)
        return out

    def determinize(self, seat: int | NDArray[np.int8], seed: int | NDArray[np.uint64]) -> None:
        """Resamples, at every table, everything that a seat cannot know, including the future.

        Args:
          seat: one seat for all tables, or [B] seats; `DEALER` for everything that no player has seen.
          seed: one number, from which every table gets a sample of its own, or [B] numbers: tables in the same
            state with the same number get the same sample.
        """
        if not isinstance(seed, np.ndarray):
            seed = np.uint64(_require_seed(seed)) ^ (np.arange(self.num_envs, dtype=np.uint64) << np.uint64(32))
        dealer = not isinstance(seat, np.ndarray) and seat == DEALER
        self._native.determinize(np.full(self.num_envs, DEALER, np.int8) if dealer else self._seats(seat), seed)

    def relabel(self, rows: NDArray[np.int16], to: NDArray[np.int8]) -> NDArray[np.int16]:
        """Observations as if slots had other names, for games in which their order has no meaning (`info.symmetric`).

        Args:
          rows: [N, W] observations.
          to: [N, slots of a player] new name of each slot, the same for all players; blocks stay together.
        """
        out = np.array(rows, order="C")
        self._native.relabel(np.ascontiguousarray(to), out)
        return out

    def decision_keys(self, seed: int = 0) -> NDArray[np.uint64]:
        """Keys [B] that name the moment each game is in, for the randomness of an agent that acts there."""
        out = np.empty(self.num_envs, np.uint64)
        self._native.decision_keys(_require_seed(seed), out)
        return out

    def sample_actions(self, seed: int, out: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """A uniformly random legal action for every table, [B]; `SKIP` where the game is over."""
        out = np.empty(self.num_envs, np.int64) if out is None else out
        self._native.sample_actions(seed, out)
        return out

    def random_steps(self, count: int, seed: int = 0, *, write: bool = True) -> None:
        """Plays `count` random steps at every table inside the core; writes buffers at each step, or at the end."""
        at_once = max(1, _INTERRUPTIBLE // self.num_envs)
        for done in range(0, count, at_once):
            self._native.random_steps(seed, min(at_once, count - done), write)

    def save(self, table: int) -> bytes:
        """Complete state of one table as bytes."""
        return self._native.save(table)

    def load(self, table: int, blob: bytes) -> None:
        """Puts a saved state on a table; refuses bytes that are not a state of this game and these rules."""
        self._native.load(table, blob)

    def copy_from(self, source: VecEnv, rows: Sequence[int] | NDArray[np.int64]) -> None:
        """Makes table k a copy of the source's table rows[k]."""
        self._native.copy_tables(source._native, [int(row) for row in rows])

    def render(self, table: int = 0, seat: int | None = None) -> str:
        """Text of a table as a seat sees it; by default as a spectator sees it."""
        return self._native.render(table, -1 if seat is None else seat)

    def last_event(self, table: int = 0) -> str:
        """The round's last decision in words, as everybody saw it; "" before the first."""
        return self._native.last_event(table)

    def inspect(self, table: int = 0) -> dict[str, list[int]]:
        """All of a table, hidden cards included: for tests and debugging, never for players."""
        return dict(self._native.inspect(table))

    def bot(self, name: str, *, seed: int = 0, **parameters: float) -> Bot:
        """A hand-written player, such as `bot("threshold", t=2)` or `bot("threshold(t=2)")`; `bots` lists them."""
        base, written = parse_bot(name)
        settings = {**written, **parameters}
        native = self._native.bot(base, list(settings.items()))
        label = f"{base}({', '.join(f'{k}={v:g}' for k, v in settings.items())})" if settings else base
        return Bot(native, label, seed)

    @property
    def bots(self) -> dict[str, str]:
        """Names and ideas of the game's hand-written players."""
        return {doc.name: doc.idea for doc in self.info.bots}

    @property
    def default_bot(self) -> str:
        """Name of the bot that plays where none is named."""
        return self.info.default_bot

    def bot_actions(
        self,
        bots: Sequence[Bot | None],
        seed: int = 0,
        out: NDArray[np.int64] | None = None,
        *,
        chosen: NDArray[Any] | Sequence[int] | None = None,
    ) -> NDArray[np.int64]:
        """Actions [B] of bots for the players to move; `SKIP` where there is no bot, or the game is over.

        A bot's randomness depends on the seed and the moment in the game, not on the batch.

        Args:
          bots: bot in each seat or, with `chosen`, any number of bots.
          seed: seed of the bots' randomness.
          out: [B] array to write to.
          chosen: [B] number of the bot that acts at each table, whatever seat is to move; negative for none.
        """
        out = np.empty(self.num_envs, np.int64) if out is None else out
        which = None if chosen is None else np.ascontiguousarray(chosen, np.int64)
        self._native.bot_actions([bot and bot.native for bot in bots], seed, out, which)
        return out

    def playout(self, bots: Sequence[Bot], seed: int = 0, *, until: str = "end") -> None:
        """Lets bots finish the game at every table (until="end"), or play to the end of the round ("round")."""
        if until not in ("end", "round"):
            raise ValueError(f"until: expected end or round, got {until!r}")
        self._native.playout([bot.native for bot in bots], seed, until == "round")

    def play(self, bots: Sequence[Bot], num_games: int, *, first_deal: int = 0, seed: int = 0) -> Records:
        """Plays whole games between bots inside the core: deals first_deal, first_deal + 1, ... of this seed.

        Args:
          bots: bot in each seat.
          num_games: number of games, N.
          first_deal: number of the first deal; the same number gives the same cards.
          seed: seed of the bots' own randomness.
        """
        scores = np.zeros((num_games, self.num_players), np.int32)
        truncated = np.zeros(num_games, np.bool_)
        stats = np.zeros((num_games, len(self.stat_names)), np.int32)
        players = [bot.native for bot in bots]
        for i in range(0, max(1, num_games), _GAMES_AT_ONCE):
            part = slice(i, i + _GAMES_AT_ONCE)
            self._native.play(players, seed, first_deal + i, scores[part], truncated[part], stats[part])
        return Records(scores, truncated, dict(zip(self.stat_names, stats.T, strict=True)))

    def _seats(self, seat: int | NDArray[np.int8]) -> NDArray[np.int8]:
        if isinstance(seat, np.ndarray):
            return seat
        if not 0 <= seat < self.num_players:
            raise ValueError(f"seat {seat}: expected 0 to {self.num_players - 1}")
        return np.full(self.num_envs, seat, np.int8)
