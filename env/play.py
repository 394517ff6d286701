"""Play in the terminal against hand-written players: `python -m env.play GAME`; --help lists the options."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from env.description import DEFAULT_BOT, GameDescription, describe, games
from env.vector import Bot, VecEnv, make


class Leave(Exception):
    """Raised when the person leaves the game."""


# ---------------------------------------------------------------------------------------------------------
# Input from the keyboard.


def find_action(text: str, names: Sequence[str], legal: Sequence[int]) -> int:
    """Legal action that `text` stands for; a ValueError says why there is none.

    An action can be given by its whole name, its last word, any beginning of its name, or # and its number. The first
    of these ways in which `text` fits any action of the game counts, and exactly one action that it fits must be
    legal: "place 1" never means "place 10", possible or not.

    Args:
      text: the person's answer.
      names: [A] names of all actions.
      legal: actions that are possible now.
    """
    wanted = " ".join(text.lower().split())
    if not wanted:
        raise ValueError("type the name of an action")
    lower = [name.lower() for name in names]
    ways = (
        [name == wanted for name in lower],
        [name.split()[-1] == wanted for name in lower],
        [name.startswith(wanted) for name in lower],
        [f"#{action}" == wanted for action in range(len(names))],
    )
    for way in ways:
        known = [action for action, fits in enumerate(way) if fits]
        possible = [action for action in known if action in legal]
        if len(possible) == 1:
            return possible[0]
        if possible:
            raise ValueError(f"{text!r} could be {menu([names[action] for action in possible])}")
        if known:
            raise ValueError(f"{menu([names[action] for action in known])}: not possible now")
    raise ValueError(f"{text!r} is no action")


def menu(names: Sequence[str]) -> str:
    """One line of action names; neighbours that differ only in the last word share the rest."""
    parts = []
    for head, group in groupby(names, lambda name: name.rpartition(" ")[0]):
        last_words = [name.rpartition(" ")[2] for name in group]
        parts.append(f"{head} {' '.join(last_words)}" if head else ", ".join(last_words))
    return ", ".join(parts)


def help_text(names: Sequence[str], legal: Sequence[int]) -> str:
    """Explanation of how to answer, with the actions that are possible now."""
    return "\n".join(
        [
            "Type an action's name, its last word, a beginning of its name, or # and its number: anything",
            "that fits exactly one possible action. q leaves the game, ? shows this help. The game's page in",
            "docs/games explains the actions. Possible now:",
            *(f"  #{action:<3} {names[action]}" for action in legal),
        ]
    )


def parse_rules(texts: Sequence[str]) -> dict[str, Any]:
    """Rules as `env.make` takes them, from the name of a rule set and "option=value" texts."""
    rules: dict[str, Any] = {}
    for text in texts:
        option, equals, value = text.partition("=")
        name = option if equals else "preset"
        if name in rules:
            raise ValueError(f"--rules: {name} is given twice")
        rules[name] = parse_value(value) if equals else text
    return rules


def parse_value(text: str) -> bool | int | float | str | list[int]:
    """Value of a rule option: true, false, a number, integers with commas between them, or else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    number = r"-?\d{1,18}"  # longer numbers do not fit the core's integers
    if re.fullmatch(f"{number}(,{number})+", text):
        return [int(part) for part in text.split(",")]
    if re.fullmatch(number, text):
        return int(text)
    with suppress(ValueError):
        return float(text)
    return text


# ---------------------------------------------------------------------------------------------------------
# A game at a table.


class Session:
    """One game at one table.

    Everything printed comes from the view of the person's seat (a spectator's if only bots play) and from the names of
    the actions taken, which are public, so that no hidden card can be given away.

    Attributes:
      tables: a batch of one table.
      bots: [P] bots by seat, None where the person sits.
      ask: prints a prompt and returns the person's answer.
      pause: seconds to wait after a bot's turn.
    """

    def __init__(self, tables: VecEnv, bots: Sequence[Bot | None], ask: Callable[[str], str], pause: float) -> None:
        self.tables = tables
        self.bots = bots
        self.ask = ask
        self.pause = pause
        self.seat = bots.index(None) if None in bots else None
        self.console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)

    def run(self) -> None:
        """Plays the game to its end."""
        tables = self.tables
        self.say(f"{tables.game} with seed {tables.seed} (--seed {tables.seed} deals the same cards again)")
        self.say("at the table: " + ", ".join(self.who(seat) for seat in range(tables.num_players)))
        while not tables.done[0]:
            self.show_table()
            mover, scores = int(tables.to_play[0]), tables.scores[0].copy()
            if mover == self.seat:
                tables.step([self.decide()])
                if tables.last_event(0):
                    self.say(f"you: {tables.last_event(0)}", "green")
            else:
                self.play_turn(mover)
            if (tables.scores[0] != scores).any():
                self.show_points(scores)
        self.show_table()
        self.show_result()

    def play_turn(self, mover: int) -> None:
        """Lets a bot decide until its turn or the round is over, and prints its decisions."""
        tables, scores, decisions = self.tables, self.tables.scores[0].copy(), []
        while tables.to_play[0] == mover and not tables.done[0] and (tables.scores[0] == scores).all():
            actions = tables.bot_actions(self.bots, tables.seed)
            tables.step(actions)
            decisions.append(tables.last_event(0) or tables.action_names[actions[0]])
        self.say(f"{self.who(mover)}: {'; '.join(decisions)}", "yellow")
        time.sleep(self.pause)

    def decide(self) -> int:
        """Asks the person until the answer is a legal action."""
        names, legal = self.tables.action_names, np.flatnonzero(self.tables.legal[0]).tolist()
        phase = self.tables.phase_names[self.tables.phase[0]]
        self.say(f"{phase}: {menu([names[action] for action in legal])}? (? for help)", "bold green")
        while True:
            text = self.ask("> ").strip()
            if text.lower() == "q":
                raise Leave
            if text == "?":
                self.say(help_text(names, legal))
                continue
            try:
                return find_action(text, names, legal)
            except ValueError as error:
                self.say(f"{error} (? for help)", "red")

    def show_table(self) -> None:
        """Prints the table as the person sees it."""
        text = Text("\n" + self.tables.render(0, self.seat).rstrip("\n"))
        text.highlight_regex(r"(?<![\w-])-?\d+", "cyan")
        text.highlight_regex(r"##", "dim")
        text.highlight_regex(r"\(you\)", "bold green")
        self.console.print(text)

    def show_points(self, before: NDArray[np.int32]) -> None:
        """Prints everybody's total and the change since the totals [P] `before`."""
        after = self.tables.scores[0]
        seats = range(self.tables.num_players)
        totals = (f"{self.who(seat)} {after[seat]} ({after[seat] - before[seat]:+})" for seat in seats)
        self.say("points: " + ", ".join(totals), "bold")

    def show_result(self) -> None:
        """Prints final ranks and scores, the best first."""
        tables = self.tables
        limit = " (it has reached its limit of decisions)" if tables.truncated[0] else ""
        self.say(f"\nThe game is over{limit}.", "bold")
        width = max(len(self.who(seat)) for seat in range(tables.num_players))
        for seat in np.argsort(tables.ranks[0], kind="stable").tolist():
            line = f"{tables.ranks[0, seat]:3}. {self.who(seat):{width}} {tables.scores[0, seat]:6}"
            self.say(line, "bold green" if seat == self.seat else "")

    def who(self, seat: int) -> str:
        """Name of a seat and its player."""
        bot = self.bots[seat]
        return f"seat {seat} ({bot.name if bot else 'you'})"

    def say(self, text: str, style: str = "") -> None:
        self.console.print(text, style=style)


# ---------------------------------------------------------------------------------------------------------
# From the command line to a table.


class Parser(argparse.ArgumentParser):
    """Argument parser that reports mistakes in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def whole(end: int) -> Callable[[str], int]:
    """Parser of whole numbers from 0 to `end` - 1."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) >= end:
            raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {end - 1}, got {text!r}")
        return int(text)

    return parse


def seconds(text: str) -> float:
    """Parser of waiting times."""
    with suppress(ValueError):
        if 0 <= float(text) <= 60:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number from 0 to 60, got {text!r}")


def make_parser() -> Parser:
    """Parser of the command line."""
    parser = Parser(
        prog="env.play",
        usage="python -m env.play GAME [options]",
        description="Play a card game in the terminal against bots, or watch them play.",
    )
    parser.add_argument("game", metavar="GAME", help=f"one of: {', '.join(games())}")
    parser.add_argument(
        "--players",
        type=whole(2**31),
        metavar="N",
        help="players at the table, you included (default: 2, or as many as --opponents names)",
    )
    parser.add_argument(
        "--opponents",
        nargs="+",
        metavar="BOT",
        help="one bot for all other seats, or one for each of them in order, such as NAME or "
        f"'NAME(parameter=2)' (default: {DEFAULT_BOT}, or the game's first bot if it has none of that name)",
    )
    parser.add_argument(
        "--rules",
        nargs="+",
        metavar="RULE",
        default=[],
        help="the name of a rule set and options as option=value; docs/games/GAME.md lists them (default: official)",
    )
    parser.add_argument(
        "--seed",
        type=whole(2**64),
        help="seed of the cards and the bots; the same seed and moves give the same game (default: random)",
    )
    parser.add_argument("--seat", type=whole(2**31), help="your seat, counted from 0 (default: 0)")
    parser.add_argument("--watch", action="store_true", help="let bots play all seats (--opponents names them)")
    parser.add_argument(
        "--pause",
        type=seconds,
        metavar="SECONDS",
        help="wait after each bot's turn (default: 1 with --watch in a terminal, else 0)",
    )
    parser.add_argument("--list-bots", action="store_true", help="describe the game's bots and exit")
    return parser


def make_table(arguments: argparse.Namespace) -> VecEnv:
    """Table that the command line asks for."""
    named = len(arguments.opponents or []) + (not arguments.watch)
    players = max(2, named) if arguments.players is None else arguments.players
    seed = int.from_bytes(os.urandom(4)) if arguments.seed is None else arguments.seed
    return make(arguments.game, 1, players, parse_rules(arguments.rules), seed, auto_reset=False)


def seat_bots(tables: VecEnv, arguments: argparse.Namespace) -> list[Bot | None]:
    """Bots by seat [P], None for the person's seat."""
    players, seat = tables.num_players, arguments.seat or 0
    if arguments.watch and arguments.seat is not None:
        raise ValueError("--seat is for players, not with --watch")
    if seat >= players:
        raise ValueError(f"--seat: expected 0 to {players - 1}, got {seat}")
    names = arguments.opponents or [tables.default_bot]
    wanted = players if arguments.watch else players - 1
    if len(names) not in (1, wanted):
        raise ValueError(f"--opponents: expected 1 or {wanted} for {players} players, got {len(names)}")
    bots: list[Bot | None] = [tables.bot(name) for name in (names * wanted)[:wanted]]
    return bots if arguments.watch else [*bots[:seat], None, *bots[seat:]]


def list_bots(game: GameDescription) -> None:
    """Prints every bot with its idea and parameters."""
    for bot in game.bots:
        print(f"{bot.name}: {bot.idea}")
        for p in bot.parameters:
            print(f"    {p.name}={p.value:g} ({p.low:g} to {p.high:g}): {p.meaning}")
    print("every bot\n    epsilon=0 (0 to 1): share of its decisions that are random")


def main(argv: Sequence[str] | None = None, ask: Callable[[str], str] = input) -> int:
    """Runs the command line; `ask` stands for the keyboard."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        if arguments.list_bots:
            list_bots(describe(arguments.game))
            return 0
        tables = make_table(arguments)
        bots = seat_bots(tables, arguments)
    except ValueError as error:
        parser.error(str(error))
    pause = arguments.pause
    if pause is None:
        pause = 1.0 if arguments.watch and sys.stdout.isatty() else 0.0
    try:
        Session(tables, bots, ask, pause).run()
    except (Leave, EOFError, KeyboardInterrupt):
        print("\nYou have left the game.")
    return 0


if __name__ == "__main__":
    with suppress(ImportError):
        import readline  # noqa: F401  # input() edits lines with readline
    sys.exit(main())
