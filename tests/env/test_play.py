"""Playing in the terminal: input, whole games, and hidden cards that must not be shown."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator

import pytest

import env
from env.play import find_action, main, menu, parse_rules, parse_value
from tests.env.cases import CASES, Case

NAMES = ["deck", "take", "keep", "discard", *(f"position {i}" for i in range(12))]
ALL = range(len(NAMES))
every_game = pytest.mark.parametrize("game", env.games())
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)


def scripted(answers: Iterable[str]) -> Callable[[str], str]:
    """A person who gives these answers and then closes the terminal."""
    lines = iter(answers)

    def ask(prompt: str) -> str:
        for line in lines:
            return line
        raise EOFError

    return ask


def play(command: str, ask: Callable[[str], str] | None = None) -> int:
    """The command in this process; without `ask` nobody is at the keyboard."""
    return main(command.split(), ask or scripted([]))


def run(*arguments: str, answers: str = "") -> subprocess.CompletedProcess[str]:
    """The command with its input and output in pipes."""
    command = [sys.executable, "-m", "env.play", *arguments]
    return subprocess.run(command, input=answers, capture_output=True, text=True, timeout=30, check=False)


class Chooser:
    """A person who answers every question with one of the actions that it lists."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.text = ""
        self.questions = 0

    def __call__(self, prompt: str) -> str:
        self.text += self.capsys.readouterr().out
        question = re.findall(r"^\w+: (.*)\? \(\? for help\)$", self.text, re.MULTILINE)[-1]
        self.questions += 1
        options = [word for part in question.split(", ") for word in part.split()[" " in part :]]
        return str(options[self.questions * 7 % len(options)])

    def finish(self) -> str:
        return self.text + self.capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------------
# Input from the keyboard.


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("deck", 0),
        ("DECK ", 0),
        ("de", 0),
        ("t", 1),
        ("position 5", 9),
        ("position   5", 9),
        ("position 1", 5),
        ("5", 9),  # the last word of a name, not the number of an action
        ("11", 15),
        ("#9", 9),
        ("#0", 0),
    ],
)
def test_an_action_can_be_given_in_several_ways(text: str, action: int) -> None:
    assert find_action(text, NAMES, ALL) == action


@pytest.mark.parametrize(
    ("text", "legal", "message"),
    [
        ("d", [0, 3], "'d' could be deck, discard"),
        ("p", [4, 6], "'p' could be position 0 2"),
        ("take", [2, 3], "take: not possible now"),
        ("5", [4, 5], "position 5: not possible now"),
        ("position 1", [14, 15], "position 1: not possible now"),  # and not position 10
        ("#2", [0, 1], "keep: not possible now"),
        ("#16", [0, 1], "'#16' is no action"),
        ("12", [4, 5], "'12' is no action"),
        ("hello", [0, 1], "'hello' is no action"),
        ("  ", [0, 1], "type the name of an action"),
    ],
)
def test_unclear_input_is_explained(text: str, legal: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        find_action(text, NAMES, legal)


def test_a_beginning_means_the_only_legal_action_that_it_fits() -> None:
    assert find_action("d", NAMES, [0, 1]) == 0
    assert find_action("d", NAMES, [2, 3]) == 3


def test_menu_shares_the_words_that_names_have_in_common() -> None:
    assert menu(["deck", "take"]) == "deck, take"
    assert menu(["pass", "place 1", "place 2", "hold 1"]) == "pass, place 1 2, hold 1"


@every_game
def test_every_name_of_a_game_is_unique(game: str) -> None:
    names = env.describe(game).action_names
    for action, name in enumerate(names):
        assert find_action(name, names, range(len(names))) == action
        assert find_action(f"#{action}", names, range(len(names))) == action


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50", 50),
        ("-3", -3),
        ("0.5", 0.5),
        ("true", True),
        ("false", False),
        ("chosen", "chosen"),
        ("1,2,3", [1, 2, 3]),
        ("1,x", "1,x"),
        ("9" * 30 + ",1", "9" * 30 + ",1"),
    ],
)
def test_rule_values_are_parsed_by_their_look(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_rules_are_parsed_from_a_preset_and_options() -> None:
    assert parse_rules(["summary", "target=50"]) == {"preset": "summary", "target": 50}
    with pytest.raises(ValueError, match="target is given twice"):
        parse_rules(["target=50", "target=60"])


# ---------------------------------------------------------------------------------------------------------
# Whole games.


def short_rules(case: Case) -> str:
    """Options that make a game short."""
    return "--rules " + " ".join(f"{option}={value}" for option, value in case.short.items())


@pytest.mark.parametrize(
    ("case", "players", "seat"),
    [
        pytest.param(case, players, seat, id=f"{case.game}-{players}-{seat}")
        for case in CASES
        for players, seat in ((2, 0), (2, 1), (4, 2))
        if players in case.players
    ],
)
def test_a_person_plays_to_the_end(case: Case, players: int, seat: int, capsys: pytest.CaptureFixture[str]) -> None:
    person = Chooser(capsys)
    command = f"{case.game} --players {players} --seat {seat} --seed 5 --opponents random {short_rules(case)}"
    assert play(command, person) == 0
    text = person.finish()
    assert f"{case.game} with seed 5" in text
    assert f"seat {seat} (you)" in text
    assert "The game is over." in text
    result = re.findall(r"^ +(\d)\. seat (\d) \((\w+)\) +(-?\d+)$", text, re.MULTILINE)
    assert {int(s) for _, s, _, _ in result} == set(range(players))
    assert [int(s) for _, s, name, _ in result if name == "you"] == [seat]
    scores = [int(score) for *_, score in result]
    assert scores == sorted(scores)
    assert any(scores)
    assert [int(rank) for rank, *_ in result] == [1 + sum(s < score for s in scores) for score in scores]


@every_case
def test_points_of_every_round_add_up(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    players = case.some_players(2, 3)[-1]
    assert play(f"{case.game} --watch --seed 2 --opponents random --players {players} {short_rules(case)}") == 0
    totals = [0] * players
    text = capsys.readouterr().out
    for line in re.findall(r"^points: .*$", text, re.MULTILINE):
        for seat, (after, added) in enumerate(re.findall(r"\) (-?\d+) \(([+-]\d+)\)", line)):
            totals[seat] += int(added)
            assert totals[seat] == int(after)
    assert any(totals)
    for seat, total in enumerate(totals):
        assert re.search(rf"^ +\d\. seat {seat} \(random\) +{total}$", text, re.MULTILINE)


@every_game
def test_bots_can_be_watched(game: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert play(f"{game} --watch --seed 3") == 0
    text = capsys.readouterr().out
    assert "The game is over" in text
    assert "you" not in text


@every_game
def test_the_same_seed_gives_the_same_game(game: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in ("3", "3", "4"):
        play(f"{game} --watch --seed {seed}")
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


@every_game
def test_a_random_seed_is_printed_and_repeats_the_game(game: str) -> None:
    first = run(game, "--watch")
    found = re.search(r"--seed (\d+)", first.stdout)
    assert found
    assert run(game, "--watch", "--seed", found[1]).stdout == first.stdout


@every_case
def test_truncation_is_reported(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert play(f"{case.game} --watch --rules max_decisions={case.cap}") == 0
    assert "reached its limit of decisions" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------------
# Hidden cards stay hidden.


def tables_shown(text: str) -> Iterator[tuple[int, str]]:
    """Mover and card in hand ("" if none) of every table in a Skyjo session."""
    pattern = r"^Round .* seat (\d) to decide: .*\nDraw pile .* top -?\d+(?:   in hand (\S+))?"
    for mover, hand in re.findall(pattern, text, re.MULTILINE):
        yield int(mover), hand


def test_drawn_cards_of_opponents_are_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks at the table after every decision: no view depends on cards that are hidden from it."""
    step, looks, rules = env.VecEnv.step, [], {"target": 20}

    def step_and_look(tables: env.VecEnv, actions: object) -> None:
        step(tables, actions)  # type: ignore[arg-type]
        looks.append(tables.render(0, 1))
        resampled = env.make("skyjo", 1, 3, rules, auto_reset=False)
        resampled.copy_from(tables, [0])
        resampled.determinize(1, seed=len(looks))
        assert resampled.render(0, 1) == looks[-1]

    monkeypatch.setattr(env.VecEnv, "step", step_and_look)
    person = Chooser(capsys)
    assert play("skyjo --players 3 --seat 1 --seed 8 --opponents random --rules target=20", person) == 0
    text = person.finish()

    hands = list(tables_shown(text))
    assert all(not hand or mover == 1 for mover, hand in hands)  # others are shown between their turns only
    assert any(hand and hand != "##" for mover, hand in hands)
    drawn = [hand for look in looks if ": keep" in look for mover, hand in tables_shown(look) if mover != 1]
    assert drawn
    assert set(drawn) == {"##"}


def test_only_the_view_of_the_seat_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[int | None] = []
    render = env.VecEnv.render

    def record(tables: env.VecEnv, table: int = 0, seat: int | None = None) -> str:
        views.append(seat)
        return render(tables, table, seat)

    def forbidden(*_: object) -> None:
        raise AssertionError("this shows hidden cards")

    monkeypatch.setattr(env.VecEnv, "render", record)
    monkeypatch.setattr(env.VecEnv, "inspect", forbidden)
    monkeypatch.setattr(env.VecEnv, "save", forbidden)
    play("skyjo --seat 1 --seed 0 --rules target=20", Chooser(capsys))
    assert set(views) == {1}
    views.clear()
    play("skyjo --watch --seed 0 --rules target=20")
    assert set(views) == {None}


# ---------------------------------------------------------------------------------------------------------
# The command.


@every_game
@pytest.mark.parametrize("answers", ["q\n", "", "?\nnonsense\n\nq\n"])
def test_a_person_can_leave_the_game(game: str, answers: str) -> None:
    done = run(game, "--seed", "1", answers=answers)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.endswith("You have left the game.\n")
    assert "\x1b" not in done.stdout  # no colours in a pipe
    assert ("Possible now:" in done.stdout) == ("?" in answers)
    assert ("'nonsense' is no action" in done.stdout) == ("nonsense" in answers)


def test_output_has_colours_in_a_terminal() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "env.play", "skyjo", "--seed", "1"]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=theirs, env=environment, timeout=30, check=True)
    os.close(theirs)
    assert b"\x1b[" in os.read(ours, 4096)
    os.close(ours)


def test_ctrl_c_leaves_the_game(capsys: pytest.CaptureFixture[str]) -> None:
    def ask(prompt: str) -> str:
        raise KeyboardInterrupt

    assert play("skyjo --seed 1", ask) == 0
    assert capsys.readouterr().out.endswith("You have left the game.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("chess", "no game is called 'chess'"),
        ("", "required: GAME"),
        ("skyjo --opponents nobody", "'nobody'"),
        ("skyjo --opponents random(t=2)", "no parameter 't'"),
        ("skyjo --opponents random(", "expected NAME"),
        ("skyjo --opponents random random random --players 3", "expected 1 or 2 for 3 players, got 3"),
        ("skyjo --rules nonsense", "rule 'preset': expected one of official"),
        ("skyjo --rules tarrget=50", "rule 'tarrget': expected one of"),
        ("skyjo --rules target=many", "rule 'target': expected an integer"),
        ("skyjo --players 9", "num_players: expected 2 to 8, got 9"),
        ("skyjo --seat 2", "--seat: expected 0 to 1, got 2"),
        ("skyjo --seat -1", "--seat"),
        ("skyjo --watch --seat 0", "--seat is for players"),
        ("skyjo --seed x", "--seed: expected a whole number"),
        ("skyjo --pause x", "--pause: expected a number"),
        ("skyjo --bluff", "unrecognized arguments: --bluff"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        play(arguments)
    assert stopped.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("env.play: ")
    assert message in output.err
    assert output.err.count("\n") == 1


@every_game
def test_list_bots_prints_every_bot(game: str) -> None:
    done = run(game, "--list-bots")
    assert done.returncode == 0
    for name, idea in env.make(game).bots.items():
        assert f"{name}: {idea}\n" in done.stdout


def test_opponents_are_seated_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert play("skyjo --opponents random random(epsilon=0.5) --seat 1 --seed 0") == 0
    table = "at the table: seat 0 (random), seat 1 (you), seat 2 (random(epsilon=0.5))\n"
    assert table in capsys.readouterr().out


def test_the_default_opponent_exists(capsys: pytest.CaptureFixture[str]) -> None:
    bots = env.make("skyjo").bots
    assert play("skyjo --seed 0") == 0
    expected = "greedy" if "greedy" in bots else next(iter(bots))
    assert f"seat 1 ({expected})" in capsys.readouterr().out


def test_pause_waits_after_every_turn_of_a_bot(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    play("skyjo --watch --seed 0 --rules max_decisions=20")
    assert set(waits) == {0.0}
    waits.clear()
    play("skyjo --watch --seed 0 --rules max_decisions=20 --pause 0.5")
    assert set(waits) == {0.5}
