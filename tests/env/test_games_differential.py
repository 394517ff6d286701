"""Every game against its independent oracle: same deals, same actions, all compared after each step."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import env
from tests.env.cases import CASES, SETTINGS, Case, Rules, per_setting

per_game = pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)


def compare(case: Case, tables: env.VecEnv, oracles: dict[int, Any], cards: list[Any], turn: int) -> None:
    """Complete state, legality, standing, conservation, and observations and beliefs.

    These are compared for the player to move and two more seats, others at every turn: at large tables they take most
    of the oracle's time.
    """
    players = tables.num_players
    rows = [tables.observe(seat) for seat in range(players)]
    beliefs = [tables.unseen_counts(seat) for seat in range(players)]
    labels, draws = ([call(seat) for seat in range(players)] for call in (tables.true_cards, tables.draws))
    for i, oracle in oracles.items():
        state = tables.inspect(i)
        assert state == case.fields(oracle), f"table {i}"
        assert case.conserved(state) == cards[i]
        assert np.flatnonzero(tables.legal[i]).tolist() == sorted(oracle.legal())
        assert (tables.to_play[i], tables.phase[i]) == (oracle.to_play, oracle.phase)
        assert (tables.done[i], tables.truncated[i]) == (oracle.done, oracle.truncated)
        assert tables.scores[i].tolist() == oracle.scores
        assert tables.ranks[i].tolist() == oracle.ranks()
        if oracle.done:
            assert tables.stats[i].tolist() == case.stats(oracle)
        assert tables.rewards[i].tolist() == pytest.approx(oracle.rewards, abs=1e-6)
        assert tables.obs[i].tolist() == rows[oracle.to_play][i].tolist()
        for seat in {oracle.to_play, turn % players, (turn + players // 2) % players}:
            assert rows[seat][i].tolist() == oracle.observe(seat), f"table {i}, seat {seat}"
            assert beliefs[seat][i].tolist() == oracle.unseen_counts(seat), f"table {i}, seat {seat}"
            assert labels[seat][i].tolist() == oracle.true_cards(seat), f"table {i}, seat {seat}"
            assert draws[seat][i].tolist() == oracle.draws(seat), f"table {i}, seat {seat}"


def run(case: Case, rules: Rules, players: int, matches: int, seed: int) -> int:
    """Plays whole episodes, half at random and half by bots; returns the number of decisions compared."""
    tables = env.make(case.game, matches, players, rules, seed, auto_reset=False)
    oracles = [case.oracle(rules, players, seed, i, 0) for i in range(matches)]
    cards = [case.conserved(tables.inspect(i)) for i in range(matches)]
    chance = random.Random(seed)
    bots = [tables.bot(chance.choice(list(tables.bots)), epsilon=0.2) for _ in range(players)]
    compare(case, tables, dict(enumerate(oracles)), cards, 0)
    decisions = turn = 0
    while not tables.done.all():
        actions = tables.bot_actions(bots, seed)
        actions[::2] = tables.sample_actions(seed)[::2]
        odds = tables.odds(actions)
        tables.step(actions)
        acting = {i: oracles[i] for i in np.flatnonzero(actions != env.SKIP)}
        for i, oracle in acting.items():
            actor = oracle.to_play
            assert odds[i].tolist() == pytest.approx(oracle.odds(actor, int(actions[i])), abs=1e-6)
            oracle.step(int(actions[i]))
            assert tables.outcome[i] == oracle.outcome(actor)
        turn += 1
        compare(case, tables, acting, cards, turn)
        decisions += len(acting)
    return decisions


@per_setting
def test_game_agrees_with_its_oracle(setting: tuple[Case, str, int]) -> None:
    case, name, players = setting
    matches = 4 if players <= 3 else 2  # one by random players, one by bots
    assert run(case, case.rules[name], players, matches, seed=players) > 0


@pytest.mark.parametrize("case", [case for case in CASES if case.reshuffling], ids=lambda case: case.game)
def test_reshuffles_agree_with_the_oracle(case: Case) -> None:
    assert case.reshuffling is not None
    tables = env.make(case.game, 8, 2, case.reshuffling, seed=5)
    reshuffled = False
    for _ in range(100):
        tables.random_steps(1)
        reshuffled |= any(tables.inspect(i)["reshuffled"] == [1] for i in range(8))
    assert reshuffled
    run(case, case.reshuffling, 2, matches=8, seed=5)


@per_game
def test_later_episodes_agree_with_the_oracle(case: Case) -> None:
    """Automatic resets go on to the next episode of the same deal, and report the one that ended."""
    players = case.some_players(2, 3)[-1]
    tables = env.make(case.game, 2, players, case.short, seed=9)
    episodes = [0, 0]
    oracles = [case.oracle(case.short, players, 9, i, 0) for i in range(2)]
    while min(episodes) < 3:
        actions = tables.sample_actions(1)
        tables.step(actions)
        for i, oracle in enumerate(oracles):
            oracle.step(int(actions[i]))
            assert tables.scores[i].tolist() == oracle.scores
            assert tables.done[i] == oracle.done
            if oracle.done:
                assert tables.stats[i].tolist() == case.stats(oracle)
                episodes[i] += 1
                oracles[i] = case.oracle(case.short, players, 9, i, episodes[i])
            assert tables.inspect(i) == case.fields(oracles[i])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_million_decisions_agree_with_the_oracle(part: int) -> None:
    decisions = 0
    seed = 1000 + part
    while decisions < 250_000:
        case, name, players = SETTINGS[seed % len(SETTINGS)]
        decisions += run(case, case.rules[name], players, matches=8, seed=seed)
        seed += 101  # prime to the number of parts and settings, so that the parts cover them all
