"""Hidden information: observations never depend on it, and beliefs are the exact posterior."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import env
from tests.env.cases import SETTINGS, SKYJO, Case, per_setting


def positions(case: Case, name: str, players: int, count: int = 48) -> env.VecEnv:
    """Tables stopped at very different moments."""
    tables = env.make(case.game, count, players, case.rules[name], seed=players, auto_reset=False)
    for moment in range(60):
        actions = tables.sample_actions(3)
        actions[np.arange(count) <= moment] = env.SKIP  # table i stops after i steps
        tables.step(actions)
    return tables


@per_setting
def test_observations_do_not_depend_on_what_a_seat_cannot_know(setting: tuple[Case, str, int]) -> None:
    case, name, players = setting
    tables = positions(case, name, players)
    other = env.make(case.game, tables.num_envs, players, case.rules[name], auto_reset=False)
    changed, many = 0, 0
    for seat in range(players):
        for resample in range(2):
            other.copy_from(tables, range(tables.num_envs))
            before = other.observe(seat).tobytes()
            counts = other.unseen_counts(seat).tobytes()
            text = [other.render(i, seat) for i in range(other.num_envs)]
            other.determinize(seat, seed=resample)
            assert other.observe(seat).tobytes() == before
            assert other.unseen_counts(seat).tobytes() == counts
            assert [other.render(i, seat) for i in range(other.num_envs)] == text
            for i in range(other.num_envs):
                real, imagined = tables.inspect(i), other.inspect(i)
                assert case.conserved(real) == case.conserved(imagined)
                if len(set(case.hidden(real))) > 1:
                    many += 1
                    changed += case.hidden(real) != case.hidden(imagined)
    assert changed > 0.3 * many > 0, "determinize hardly changed anything"


def test_every_phase_is_met_with_every_seat_as_observer() -> None:
    """The leak test above stops at every phase, seen by its mover and by others."""
    met = set()
    for case, name, players in SETTINGS:
        tables = positions(case, name, players)
        for phase, mover, over in zip(tables.phase, tables.to_play, tables.done, strict=True):
            met |= {(case.game, int(phase), seat == mover) for seat in range(players) if not over}
    games = {case.game: env.describe(case.game).num_phases for case, _, _ in SETTINGS}
    assert met == {(game, p, own) for game, phases in games.items() for p in range(phases) for own in (True, False)}


def test_the_drawn_card_is_seen_by_its_holder_alone() -> None:
    tables = env.make("skyjo", 64, 3, seed=1)
    tables.step(np.zeros(64, np.int64))
    hands = np.array([tables.inspect(i)["hand"][0] for i in range(64)])
    where = next(g for g in tables.groups if g.name == "decision").offset + 1
    for seat in range(3):
        seen = tables.observe(seat)[:, where]
        own = tables.to_play == seat
        assert (seen[own] == hands[own]).all()
        assert (seen[~own] == 16).all()


def hidden_cards(tables: env.VecEnv) -> np.ndarray:
    """[N, cells] card codes of the face-down cells that all tables share."""
    rows = []
    for i in range(tables.num_envs):
        state = tables.inspect(i)
        rows.append([c for c, up in zip(state["boards"], state["face_up"], strict=True) if c and not up])
    return np.array(rows)


def chi_square(observed: np.ndarray, weights: np.ndarray) -> float:
    """p value of counts against weights, over the kinds that are possible; impossible ones must not occur."""
    assert observed[weights == 0].sum() == 0
    expected = weights[weights > 0] / weights.sum() * observed.sum()
    if len(expected) == 1:
        return 1.0
    return float(stats.chisquare(observed[weights > 0], expected).pvalue)


@pytest.mark.parametrize("rules", ["official", "reshuffles"])
def test_determinize_samples_the_hypergeometric_posterior(rules: str) -> None:
    """Single cells, pairs of cells, the next deck card and the opponent's drawn card; several moments."""
    copies, pvalues = 4000, []
    options = SKYJO.reshuffling if rules == "reshuffles" and SKYJO.reshuffling else {}
    start = env.make("skyjo", 1, 2, options, seed=3, auto_reset=False)
    samples = env.make("skyjo", copies, 2, options, auto_reset=False)
    moments = 0
    for step in range(60):
        start.step(start.sample_actions(4))
        if start.done[0] or step % 6:
            continue
        moments += 1
        for seat in (0, 1):
            samples.copy_from(start, [0] * copies)
            samples.determinize(seat, seed=step)
            grid, deck = samples.unseen_counts(seat)[0]
            cards = hidden_cards(samples)
            single = np.array([(cards[:, 0] == code).sum() for code in range(1, 16)])
            pvalues.append(chi_square(single, grid))
            if cards.shape[1] > 1:
                joint = np.zeros((15, 15), int)
                np.add.at(joint, (cards[:, 0] - 1, cards[:, -1] - 1), 1)
                weights = np.outer(grid, grid) - np.diag(grid)
                pvalues.append(chi_square(joint.ravel(), weights.ravel()))
            phase, mover = start.phase[0], start.to_play[0]
            if phase == 0 or (phase == 1 and mover != seat):  # the next deck card; a card drawn by the other
                if phase == 0:
                    samples.step(np.zeros(copies, np.int64))
                hands = np.array([samples.inspect(i)["hand"][0] for i in range(copies)])
                pvalues.append(chi_square(np.array([(hands == code).sum() for code in range(1, 16)]), deck))
    assert moments >= 5
    assert len(pvalues) > 10
    assert min(pvalues) > 1e-3 / len(pvalues), pvalues
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-4  # neither too bad nor too good


def test_counts_are_the_posterior_given_everything_a_seat_has_seen() -> None:
    """By rejection: in the deals that look the same to seat 0 all along, hidden cards are distributed as counted.

    A deck of 28 cards with two values makes the match of whole histories likely enough, and has the discard
    pile reshuffled at the fourth draw, after which face-down cards and draw pile are different pools.
    """
    deck = [0] * 15
    deck[3], deck[7] = 16, 12
    rules = {
        "deck": deck,
        "setup": "chosen",
        "initial_reveals": 1,
        "next_starter": "seat_0",
        "episode": "round",
        "cleared_cards": "out_of_play",
    }
    tables = env.make("skyjo", 240_000, 2, rules, seed=8, auto_reset=False)
    # Reveal one each; then four turns of draw, discard, turn over.
    script = [4, 5, 0, 3, 6, 0, 3, 6, 0, 3, 7, 0, 3, 7]
    alike = np.ones(tables.num_envs, bool)
    tested = defaultdict(int)
    for action in script:
        actions = np.where(alike & tables.legal[:, action], action, env.SKIP)
        tables.step(actions)
        rows = tables.observe(0)
        alike &= (actions != env.SKIP) & (rows == rows[np.flatnonzero(alike)[0]]).all(axis=1)
        chosen = np.flatnonzero(alike)
        grid, deck_pool = tables.unseen_counts(0)[chosen[0]]
        states = [tables.inspect(int(i)) for i in chosen[:2000]]
        reshuffled = bool(states[0]["reshuffled"][0])
        first = np.array([next(c for c, up in zip(s["boards"], s["face_up"], strict=True) if not up) for s in states])
        pairs = [("grid", first, grid)]
        if states[0]["hand"][0] and states[0]["to_play"][0] == 1:
            pairs.append(("hand", np.array([s["hand"][0] for s in states]), deck_pool))
        for name, cards, weights in pairs:
            observed = np.array([(cards == code).sum() for code in range(1, 16)])
            assert len(cards) > 100
            assert chi_square(observed, weights) > 1e-5, (action, name)
            tested[name, reshuffled] += 1
    assert set(tested) == {(place, after) for place in ("grid", "hand") for after in (False, True)}


# -------------------------------------------------------------------------------------------------- L.A.M.A.


def lama_hands(tables: env.VecEnv) -> np.ndarray:
    """[N, P, 7] cards of each kind in every hand."""
    return np.array([tables.inspect(i)["hands"] for i in range(tables.num_envs)]).reshape(tables.num_envs, -1, 7)


def test_hands_are_seen_by_their_owners_alone_until_they_are_counted() -> None:
    tables = env.make("lama", 64, 3, seed=1, rules={"target": 20}, auto_reset=False)
    group = tables.groups[0]
    assert group.name == "hand"
    for _ in range(40):
        tables.step(tables.sample_actions(1))
        hands = lama_hands(tables)
        for seat in range(3):
            seen = tables.observe(seat)[:, : group.count * 3].reshape(64, 3, 7, 3)[..., 2]
            around = hands[:, [(seat + r) % 3 for r in range(3)]]
            assert (seen[:, 0] == around[:, 0]).all()
            assert (seen[~tables.done, 1:] == 17).all()
            assert (seen[tables.done] == around[tables.done]).all()
    assert tables.done.any()


def test_hands_are_dealt_anew_from_the_unseen_cards() -> None:
    """Cards of a kind in one hand, and in both, are hypergeometric, at several moments; so is the next deck card."""
    copies, pvalues = 6000, []
    start = env.make("lama", 1, 3, seed=3, auto_reset=False)
    samples = env.make("lama", copies, 3, auto_reset=False)
    strategy = start.bot("strategy_1")
    for step in range(15):
        start.step(start.bot_actions([strategy] * 3))
        if step % 3:
            continue
        samples.copy_from(start, [0] * copies)
        samples.determinize(0, seed=100 + step)
        unseen, upcoming = samples.unseen_counts(0)[0]
        hands = lama_hands(samples)
        assert (hands[:, 0] == lama_hands(start)[0, 0]).all()
        sizes = hands[0].sum(1)
        for cards, size in ((hands[:, 1], sizes[1]), (hands[:, 2], sizes[2]), (hands[:, 1:].sum(1), sizes[1:].sum())):
            kind = step % 7
            weights = stats.hypergeom(unseen.sum(), unseen[kind], size).pmf(np.arange(9))
            observed = np.bincount(cards[:, kind], minlength=9)
            common = weights * copies > 5
            assert observed[weights == 0].sum() == 0
            pvalues.append(chi_square(observed[common], weights[common]))
        before = hands.sum(1)
        samples.step(np.full(copies, 7))
        drawn = (lama_hands(samples).sum(1) - before).sum(0)
        assert drawn.sum() == copies
        pvalues.append(chi_square(drawn, upcoming))
    assert min(pvalues) > 1e-3 / len(pvalues), pvalues
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-4  # neither too bad nor too good


def test_lama_counts_are_the_posterior_where_nothing_is_concluded_from_play() -> None:
    """By rejection: selects, from many deals in which everybody draws, those that look the same to seat 0."""
    rules = {"deck": [0, 0, 9, 7, 0, 0, 0], "episode": "round"}
    tables = env.make("lama", 200_000, 2, rules, seed=8, auto_reset=False)
    alike = np.ones(tables.num_envs, bool)
    for _ in range(3):
        rows = tables.observe(0)
        alike &= (rows == rows[np.flatnonzero(alike)[0]]).all(axis=1)
        chosen = np.flatnonzero(alike)[:4000]
        assert len(chosen) > 500
        unseen = tables.unseen_counts(0)[chosen[0]][0]
        threes = np.array([tables.inspect(int(i))["hands"][7 + 2] for i in chosen])
        size = sum(tables.inspect(int(chosen[0]))["hands"][7:])
        weights = stats.hypergeom(unseen.sum(), unseen[2], size).pmf(np.arange(10))
        assert chi_square(np.bincount(threes, minlength=10), weights) > 1e-4
        tables.step(np.where(alike, 7, env.SKIP))


# -------------------------------------------------------------------------------------------------- Skip-Bo


def skipbo_hands(tables: env.VecEnv) -> list[list[list[int]]]:
    """Every hand at every table."""
    hands = []
    for i in range(tables.num_envs):
        state = tables.inspect(i)
        ends = np.cumsum([0, *state["hand_sizes"]])
        hands.append([state["hands"][a:b] for a, b in pairwise(ends)])
    return hands


def test_skipbo_hands_and_stocks_are_hidden() -> None:
    """A row shows only the sizes of other hands, and only the tops of all stocks, the observer's included."""
    tables = env.make("skipbo", 64, 3, seed=1, auto_reset=False)
    bots = [tables.bot("hpvp")] * 3
    for _ in range(40):
        tables.step(tables.bot_actions(bots))
        for seat in range(3):
            rows = tables.observe(seat)[:, : 42 * 6].reshape(64, 3, 14, 6)[..., 3]
            for row, hands in zip(rows, skipbo_hands(tables), strict=True):
                for r in range(3):
                    hand = hands[(seat + r) % 3]
                    shown = hand if r == 0 else [14] * len(hand)
                    assert row[r, 1:6].tolist() == shown + [0] * (5 - len(hand))
    stock = tables.groups[0]
    assert (stock.name, [field.name for field in stock.fields][3]) == ("slot", "card")


def test_skipbo_cards_are_dealt_anew_from_the_unseen_ones() -> None:
    """A hand, an own stock card and the next card drawn, at several moments."""
    copies, pvalues = 4000, []
    rules = {"stock": 10}
    start = env.make("skipbo", 1, 2, rules, seed=3, auto_reset=False)
    samples = env.make("skipbo", copies, 2, rules, auto_reset=False)
    hpvp = start.bot("hpvp")
    for step in range(24):
        start.step(start.bot_actions([hpvp] * 2))
        if step % 6:
            continue
        samples.copy_from(start, [0] * copies)
        samples.determinize(0, seed=100 + step)
        unseen, upcoming = samples.unseen_counts(0)[0]
        hands = skipbo_hands(samples)
        assert all(hand[0] == skipbo_hands(start)[0][0] for hand in hands)
        size = len(hands[0][1])
        wilds = np.bincount([hand[1].count(13) for hand in hands], minlength=6)
        weights = stats.hypergeom(unseen.sum(), unseen[12], size).pmf(np.arange(6))
        common = weights * copies > 5
        assert wilds[weights == 0].sum() == 0
        pvalues.append(chi_square(wilds[common], weights[common]))
        bottom = [samples.inspect(i)["stocks"][0] for i in range(copies)]  # of the own stock
        samples.step(np.full(copies, 40))  # a discard, after which the other player draws
        other = int(samples.to_play[0])
        drawn = [hand[other][len(hands[0][other])] for hand in skipbo_hands(samples)]
        for cards, pool in ((bottom, unseen), (drawn, upcoming)):
            pvalues.append(chi_square(np.bincount(cards, minlength=14)[1:], pool))
    assert len(pvalues) == 12
    assert min(pvalues) > 1e-3 / len(pvalues), pvalues
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-4  # neither too bad nor too good


@per_setting
def test_the_dealer_changes_nothing_that_any_player_has_seen(setting: tuple[Case, str, int]) -> None:
    case, name, players = setting
    tables = positions(case, name, players)
    other = env.make(case.game, tables.num_envs, players, case.rules[name], auto_reset=False)
    other.copy_from(tables, range(tables.num_envs))
    other.determinize(env.DEALER, seed=1)
    for seat in range(players):
        assert other.observe(seat).tobytes() == tables.observe(seat).tobytes()
    for i in range(tables.num_envs):
        real, imagined = tables.inspect(i), other.inspect(i)
        assert case.conserved(real) == case.conserved(imagined)
        if case.game != "skyjo":  # there, hands are never looked at
            assert real["hands"] == imagined["hands"], "hands stay"


@pytest.mark.parametrize(("game", "rules"), [("lama", {}), ("skipbo", {"stock": 6}), ("skipbo", "reshuffled")])
def test_cards_after_the_dealer_has_dealt_anew_are_a_uniform_draw(game: str, rules: env.Rules) -> None:
    """The next card that a step shows, against the cards that no player has seen."""
    reshuffled = rules == "reshuffled"
    options: env.Rules = {"stock": 15, "deck": [5] * 13} if reshuffled else rules
    start, copies, pvalues = env.make(game, 1, 2, options, seed=6, auto_reset=False), 4000, []
    samples = env.make(game, copies, 2, options, auto_reset=False)
    for step in range(1000):
        if start.done[0] or len(pvalues) == 6:
            break
        legal = np.flatnonzero(start.legal[0])
        shows = [a for a in legal.tolist() if start.odds(np.array([a]))[0, 0] < 1]
        if shows and (not reshuffled or start.inspect(0)["reshuffled"][0]):
            samples.copy_from(start, [0] * copies)
            samples.determinize(env.DEALER, seed=step)
            samples.step(np.full(copies, shows[0]))
            kinds = start.info.num_card_kinds
            observed = np.bincount(samples.outcome, minlength=1 + kinds)[1:]
            pvalues.append(chi_square(observed, unseen_by_all(start)))
        start.step(start.bot_actions([start.bot(start.info.bots[0].name)] * 2))
    assert len(pvalues) >= 2
    assert min(pvalues) > 0.001


def unseen_by_all(tables: env.VecEnv) -> np.ndarray:
    """Cards by kind, of which the next card of the deck (L.A.M.A.) or of a stock (Skip-Bo) is one."""
    state, kinds = tables.inspect(0), tables.info.num_card_kinds
    piles = state["draw_pile"] if tables.game == "lama" or not state["reshuffled"][0] else []
    cards = list(piles)
    if tables.game == "skipbo":
        begin = 0
        for left in state["stock_sizes"]:
            cards += state["stocks"][begin : begin + left - 1]  # all but the top
            begin += left
    return np.bincount(cards, minlength=1 + kinds)[1:]
