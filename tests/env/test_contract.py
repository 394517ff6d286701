"""The game contract is checked by the compiler: a game that does not fulfil it is refused in one readable line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")

# The sample game, of which a macro renames one member. Everything else is included before the macro is defined.
PROGRAM = """
#include "env/contract.h"
#include "env/vec_env.h"
#include "env/games/card_game.h"
{before}
#include "env/bots/kuhn.h"
#include "env/games/kuhn_check.h"
#include "env/games/kuhn_knowledge.h"
{after}
int main() {{
  env::visit_game<{game}>([](auto game) {{ env::VecEnv<decltype(game)> tables{{env::Options{{}}}}; }});
}}
"""


def errors(tmp_path: Path, before: str = "", after: str = "", game: str = "env::Kuhn") -> list[str]:
    """Errors of the compiler for a game, one line each."""
    assert COMPILER is not None, "the extension modules were compiled, so there is a compiler"
    source = tmp_path / "game.cpp"
    source.write_text(PROGRAM.format(before=before, after=after, game=game))
    command = [COMPILER, "-std=c++17", "-fsyntax-only", f"-I{ROOT}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    found = [line for line in done.stderr.splitlines() if " error: " in line]
    assert bool(found) == (done.returncode != 0), done.stderr
    return found


def test_the_sample_game_fulfils_the_contract(tmp_path: Path) -> None:
    assert errors(tmp_path) == []


@pytest.mark.parametrize(
    ("member", "signature"),
    [
        ("determinize", "void determinize(const Rules&, int seat, uint64_t key)"),
        ("kScoreScale", "static constexpr int kScoreScale"),
        ("true_cards", "void true_cards(int seat, int8_t*) const"),
    ],
)
def test_a_missing_member_is_named_with_its_signature(member: str, signature: str, tmp_path: Path) -> None:
    (line,) = errors(tmp_path, before=f"#define {member} something_else")
    assert f"the game contract (env/game.h) is not fulfilled, expected: {signature}" in line


def test_wrong_signatures_are_answered_with_the_right_ones(tmp_path: Path) -> None:
    """One line for each of several members."""
    wrong = {
        "uint32_t legal(const Rules&) const { return 0; }": "uint64_t legal(const Rules&) const",
        "void reset(const Rules&, int, int) {}": "void reset(const Rules&, int players, uint64_t key)",
        "std::string action_name(int) const { return {}; }": "static std::string action_name(int action)",
        "int outcome() const { return 0; }": "int outcome(int seat) const",
        "void odds(int, float*) const {}": "void odds(const Rules&, int seat, int action, float*) const",
        "bool step_told(const Rules&, int, int);": "void step_told(const Rules&, int action, int outcome)",
        "void draws(int8_t*) const {}": "void draws(int seat, int8_t*) const",
        "static bool chance_rule(int, int, int);": "static ChanceRule chance_rule(int players, int phase, int action)",
        "static constexpr char kDraws = 1;": "static constexpr int kDraws",
    }
    lines = errors(tmp_path, after=f"struct Wrong : env::Kuhn {{ {' '.join(wrong)} }};", game="Wrong")
    assert len(lines) == len(wrong)
    for signature in wrong.values():
        assert any(f"expected: {signature}" in line for line in lines)


def test_outcomes_are_kinds_of_cards_or_none(tmp_path: Path) -> None:
    lines = errors(tmp_path, after="struct Two : env::Kuhn { static constexpr int kOutcomes = 2; };", game="Two")
    assert "kOutcomes: 1, or 1 + kCardKinds" in lines[0]


def test_a_state_with_padding_is_refused(tmp_path: Path) -> None:
    (line,) = errors(tmp_path, after="struct Padded : env::Kuhn { uint8_t more; };", game="Padded")
    assert "a game's state must have no padding" in line
