"""Chance events: probabilities, told outcomes, labels of hidden cards, and slots that cannot be told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import env
from tests.env.cases import CASES, SETTINGS, SKYJO, Case, Rules, setting_name

WITH_EVENTS = [case for case in CASES if env.describe(case.game, case.players[0]).num_outcomes > 1]
per_game = pytest.mark.parametrize("case", CASES, ids=lambda case: case.game)
per_game_with_events = pytest.mark.parametrize("case", WITH_EVENTS, ids=lambda case: case.game)


def settings(case: Case) -> list[tuple[Rules, int]]:
    """Rule sets and numbers of players in which all events of a game occur."""
    some = [({}, players) for players in case.some_players(2, 4)]
    if case.game == "skyjo":
        some += [({"setup": "chosen", "initial_reveals": 3}, 3), ({"clearing": "voluntary"}, 2)]
    return [*some, (case.reshuffling, 2)] if case.reshuffling else some


def event_actions(tables: env.VecEnv, seed: int) -> np.ndarray:
    """A random legal action per table, one after which an event may follow if there is any."""
    actions = tables.sample_actions(seed)
    rules = tables.info.chance_rules
    for i, phase in enumerate(tables.phase):
        events = [a for a in np.flatnonzero(tables.legal[i]) if rules[phase][a].possible]
        if events:
            actions[i] = events[(seed * 7919 + i) % len(events)]
    return actions


def places(odds: np.ndarray, outcomes: np.ndarray, seed: int) -> np.ndarray:
    """Uniform numbers, if the outcomes have these odds: a point in the interval of the outcome, for true events."""
    ends = odds.astype(float).cumsum(1)
    rows = np.flatnonzero(odds[:, 0] < 1)
    high = ends[rows, outcomes[rows]]
    width = odds[rows, outcomes[rows]]
    assert (width > 0).all(), "an outcome of probability 0 occurred"
    return high - width * np.random.default_rng(seed).random(len(rows))


def is_uniform(points: np.ndarray) -> float:
    """p value of numbers from 0 to 1 against the uniform distribution, by 20 equal bins."""
    return float(stats.chisquare(np.histogram(points, 20, (0, 1))[0]).pvalue)


# -------------------------------------------------------------------------------------------- probabilities


@per_game
def test_odds_are_those_of_samples_of_the_belief(case: Case) -> None:
    """Hidden cards are dealt anew for the mover, then an action shows one: thousands of positions of many games."""
    points = []
    for rules, players in settings(case):
        tables = env.make(case.game, 256, players, rules, seed=7)
        imagined = env.make(case.game, 256, players, rules, auto_reset=False)
        for step in range(40):
            actions = event_actions(tables, step)
            odds = tables.odds(actions)
            assert odds.sum(1) == pytest.approx(np.ones(256), abs=1e-5)
            imagined.copy_from(tables, range(256))
            imagined.determinize(tables.to_play.copy(), seed=step)
            imagined.step(actions)
            points.append(places(odds, imagined.outcome, step))
            tables.step(np.where(np.arange(256) % 2, tables.sample_actions(step), actions))
    pooled = np.concatenate(points)
    if case not in WITH_EVENTS:
        assert len(pooled) == 0
        return
    assert len(pooled) > 3000
    assert is_uniform(pooled) > 1e-3


@pytest.mark.parametrize("setting", settings(SKYJO), ids=str)
def test_odds_are_exact_in_skyjo(setting: tuple[Rules, int]) -> None:
    """The outcomes of the games as they were dealt, without samples: the belief is the posterior."""
    tables = env.make("skyjo", 512, setting[1], setting[0], seed=9)
    points = []
    for step in range(60):
        actions = event_actions(tables, step)
        odds = tables.odds(actions)
        tables.step(actions)
        points.append(places(odds, tables.outcome, step))
    pooled = np.concatenate(points)
    assert len(pooled) > 5000
    assert is_uniform(pooled) > 1e-3


@per_game
def test_events_follow_where_the_rules_of_chance_say_and_everywhere_there(case: Case) -> None:
    met = set()
    for rules, players in settings(case):
        tables = env.make(case.game, 256, players, rules, seed=3)
        chance = np.array([[rule.possible for rule in row] for row in tables.info.chance_rules])
        for step in range(120):
            phase, actions = tables.phase.copy(), tables.sample_actions(step)
            odds = tables.odds(actions)
            tables.step(actions)
            assert ((tables.outcome > 0) == (odds[:, 0] == 0)).all()
            assert chance[phase, actions][tables.outcome > 0].all()
            met |= set(zip(phase[tables.outcome > 0].tolist(), actions[tables.outcome > 0].tolist(), strict=True))
    assert met == set(zip(*np.nonzero(chance), strict=True))


@per_game_with_events
def test_the_pool_of_an_event_is_the_row_of_counts_that_it_draws_from(case: Case) -> None:
    checked = 0
    for rules, players in settings(case):
        tables = env.make(case.game, 64, players, rules, seed=4)
        for step in range(60):
            actions = event_actions(tables, step)
            odds, counts = tables.odds(actions), tables.unseen_counts(tables.to_play.copy())
            for i in np.flatnonzero(odds[:, 0] == 0):
                pool = counts[i, tables.info.chance_rules[tables.phase[i]][actions[i]].pool]
                assert odds[i, 1:] == pytest.approx(pool / pool.sum(), abs=1e-6)
                checked += 1
            tables.step(actions)
    assert checked > 500


# ---------------------------------------------------------------------------------------------- told outcomes


@per_game
def test_a_told_step_has_that_outcome_and_leads_to_a_sound_state(case: Case) -> None:
    """Every possible outcome is told sooner or later; loading a state checks it."""
    told_codes = set()
    for rules, players in settings(case):
        tables = env.make(case.game, 128, players, rules, seed=5, auto_reset=False)
        before = [case.conserved(tables.inspect(i)) for i in range(128)]
        choice = np.random.default_rng(1)
        for step in range(60):
            actions = event_actions(tables, step)
            odds = tables.odds(actions)
            told = np.array([choice.choice(np.flatnonzero(row > 0)) for row in odds])
            tables.step(actions, told)
            assert tables.outcome.tolist() == told.tolist()
            told_codes |= set(told.tolist())
        for i in range(128):
            assert case.conserved(tables.inspect(i)) == before[i]
            tables.load(i, tables.save(i))
    assert told_codes == set(range(tables.info.num_outcomes))


@per_game_with_events
def test_what_a_told_step_leaves_hidden_is_a_draw_from_the_belief(case: Case) -> None:
    """Each hidden place holds the same cards after told steps as when all is dealt anew, place by place."""
    copies, pvalues, often = 1500, [], 5 if case is SKYJO else 3  # games of Skyjo have many hidden places
    for rules, players in settings(case):
        start = env.make(case.game, 1, players, rules, seed=8, auto_reset=False)
        told, anew = (env.make(case.game, copies, players, rules, auto_reset=False) for _ in range(2))
        events = 0
        while events < 10 and not start.done[0]:
            action = event_actions(start, events)
            odds, actor = start.odds(action)[0], int(start.to_play[0])
            codes = np.flatnonzero(odds[1:]) + 1
            if len(codes) > 1 and events % often == 0:
                told.copy_from(start, [0] * copies)
                told.determinize(actor, seed=events)
                told.step(np.full(copies, action[0]), np.full(copies, codes[events % len(codes)]))
                anew.copy_from(told, range(copies))
                anew.determinize(actor, seed=100 + events)
                if not told.done.any():
                    pvalues += compared(case, told, anew)
            events += len(codes) > 1
            start.step(action)
    assert len(pvalues) > 100
    assert min(pvalues) > 1e-3 / len(pvalues)
    assert np.mean(np.array(pvalues) < 0.05) < 0.12


def compared(case: Case, told: env.VecEnv, anew: env.VecEnv) -> list[float]:
    """p values of the hypothesis that two batches hold the same cards: in up to 30 hidden places, and in the draw pile.

    The draw pile is compared by its number of cards of each kind, because its order has no meaning: a draw is random.
    """
    rows = []
    for tables in (told, anew):
        fields = [tables.inspect(i) for i in range(tables.num_envs)]
        piles = [np.bincount(each["draw_pile"], minlength=16).tolist() for each in fields]
        rows.append([case.hidden({**each, "draw_pile": []}) + pile for each, pile in zip(fields, piles, strict=True)])
    found = []
    one, other = np.array(rows[0]), np.array(rows[1])
    hidden = one.shape[1] - 16
    for place in [*range(0, hidden, 1 + hidden // 30), *range(hidden, hidden + 16)]:
        table = np.array([np.bincount(cards[:, place], minlength=32) for cards in (one, other)])
        table = table[:, table.sum(0) > 10]
        if table.shape[1] > 1:
            found.append(float(stats.chi2_contingency(table).pvalue))
    return found


def test_a_told_step_uses_the_randomness_of_the_game() -> None:
    """The same state and outcome give the same bytes; code 0 is the ordinary step."""
    one, two = (env.make("skyjo", 64, 3, seed=6) for _ in range(2))
    told = np.where(np.arange(64) % 3, 1 + np.arange(64) % 15, 0)
    for tables in (one, two):
        tables.step(np.zeros(64, np.int64), told)
    assert [one.save(i) for i in range(64)] == [two.save(i) for i in range(64)]
    plain = env.make("skyjo", 64, 3, seed=6)
    plain.step(np.zeros(64, np.int64))
    assert all((plain.save(i) == one.save(i)) >= (told[i] == 0) for i in range(64))


@pytest.mark.parametrize(
    ("actions", "outcomes", "message"),
    [
        ([0, 0], [3, 16], r"table 1: outcome 16 cannot follow action 0 \(deck\); possible: 0 \(not told\) 1 2 3"),
        ([0, 0], [3, -1], r"table 1: outcome -1 cannot follow action 0 \(deck\)"),
        ([0, 1], [3, 4], r"table 1: outcome 4 cannot follow action 1 \(take\); possible: 0 \(not told\)$"),
        ([0, env.SKIP], [3, 4], r"table 1: outcome 4 cannot follow action -1 \(none\)"),
        ([0, 9], [3, 4], r"table 1: illegal action 9"),
        ([0, 0], [3], r"outcomes"),
    ],
)
def test_impossible_outcomes_are_refused_before_a_table_moves(
    actions: list[int], outcomes: list[int], message: str
) -> None:
    tables = env.make("skyjo", 2, seed=1)
    before = [tables.save(i) for i in range(2)]
    with pytest.raises(ValueError, match=message):
        tables.step(actions, outcomes)
    assert [tables.save(i) for i in range(2)] == before
    with pytest.raises(ValueError, match="table 0: illegal action 9"):
        tables.odds([9, 0])


@per_game
def test_outcomes_whose_odds_are_0_are_refused(case: Case) -> None:
    """All codes, at many moments: told if and only if the odds say that it is possible."""
    rules = case.reshuffling or {}
    tables = env.make(case.game, 1, 2, rules, seed=2)
    copy = env.make(case.game, 1, 2, rules)
    refused = 0
    for step in range(60):
        action = event_actions(tables, step)
        odds = tables.odds(action)[0]
        for code in range(1, tables.info.num_outcomes + 1):
            copy.copy_from(tables, [0])
            if code < len(odds) and odds[code] > 0:
                copy.step(action, [code])
                assert copy.outcome[0] == code
                continue
            refused += 1
            with pytest.raises(ValueError, match=f"table 0: outcome {code} cannot follow"):
                copy.step(action, [code])
            assert copy.save(0) == tables.save(0)
        tables.step(action)
    assert refused >= 60


# ---------------------------------------------------------------------------------------------- the buffer


@per_game_with_events
def test_outcomes_are_of_the_last_step_like_rewards(case: Case) -> None:
    """A skipped table has none, a loaded or copied one that of its state; a caller's array is written to."""
    own = np.full(32, 99, np.int8)
    tables = env.make(case.game, 32, 2, seed=3, buffers={"outcome": own})
    assert tables.outcome is own
    assert not own.any()
    other = env.make(case.game, 32, 2)
    seen = 0
    for step in range(60):
        tables.step(event_actions(tables, step))
        seen += np.count_nonzero(own)
        other.copy_from(tables, range(32))
        same = ~tables.done  # automatic resets leave no event in the state
        assert other.outcome[same].tolist() == own[same].tolist()
        other.load(0, tables.save(0))
        assert not same[0] or other.outcome[0] == own[0]
    assert seen > 30
    tables.step(np.full(32, env.SKIP))
    assert not own.any()


def test_a_round_that_ends_still_reports_its_last_card() -> None:
    """In Skyjo the card turned over last is the step's outcome, though the next round, or episode, has begun."""
    tables = env.make("skyjo", 512, 2, {"target": 1000}, seed=3)
    ended = 0
    for step in range(200):
        odds = tables.odds(actions := event_actions(tables, step))
        tables.step(actions)
        new_round = np.array([tables.inspect(int(i))["round_decisions"][0] == 0 for i in range(0, 512, 8)])
        happened = odds[::8, 0] == 0
        ended += np.count_nonzero(new_round & happened)
        assert (tables.outcome[::8][happened] > 0).all()
    assert ended > 10


@per_game_with_events
def test_a_secret_draw_is_dealt_anew_with_the_rest(case: Case) -> None:
    """After samples of another seat's belief, the state's outcome is a card that the sample allows, not the real."""
    secret = [not rule.seen_by_all for row in env.describe(case.game, 2).chance_rules for rule in row if rule.possible]
    tables = env.make(case.game, 512, 2, seed=3, auto_reset=False)
    action = event_actions(tables, 0)
    actor = tables.to_play.copy()
    tables.step(action)
    real = tables.outcome.copy()
    sample, loaded = (env.make(case.game, 512, 2, auto_reset=False) for _ in range(2))
    for seat in (actor, (1 - actor).astype(np.int8)):
        sample.copy_from(tables, range(512))
        sample.determinize(seat, seed=2)
        loaded.copy_from(sample, range(512))
        known = seat is actor or not (any(secret) or case.game == "skyjo")
        assert (loaded.outcome == real).all() == known
        for i in range(512):
            loaded.load(i, sample.save(i))  # refuses a drawn card that is not in hand


# ------------------------------------------------------------------------------------------ labels and classes


def visible(case: Case, tables: env.VecEnv, seat: int) -> np.ndarray:
    """[B, S] whether the observation of a seat shows what is in a slot."""
    field, hidden = {"skyjo": ("visibility", 0), "lama": ("count", 17), "skipbo": ("card", 14), "kuhn": ("card", 4)}[
        case.game
    ]
    group = next(group for group in tables.groups if group.slots)
    column = [each.name for each in group.fields].index(field)
    block = tables.observe(seat)[:, group.offset :][:, : group.count * len(group.fields)]
    shown: np.ndarray = block[:, column :: len(group.fields)] != hidden
    return shown


@per_game
def test_labels_are_of_hidden_cards_only(case: Case) -> None:
    """0 wherever the seat sees the slot; elsewhere the true card, which the seat's belief allows."""
    rng, labelled = np.random.default_rng(0), 0
    for rules, players in settings(case):
        tables = env.make(case.game, 128, players, rules, seed=5)
        for _ in range(20):
            tables.random_steps(int(rng.integers(1, 6)), seed=1)
            for seat in range(players):
                labels = tables.true_cards(seat)
                assert labels.shape == (128, tables.num_slots)
                assert not labels[visible(case, tables, seat)].any()
                counts = tables.unseen_counts(seat)[:, 0]
                rows, slots = np.nonzero(labels)
                assert (counts[rows, labels[rows, slots] - 1] > 0).all()
                labelled += len(rows)
    assert (labelled > 0) == (case in WITH_EVENTS)


def test_labels_of_skyjo_are_the_cards_under_their_backs() -> None:
    tables = env.make("skyjo", 32, 3, seed=2)
    tables.random_steps(30)
    for seat in range(3):
        labels = tables.true_cards(seat)
        for i in range(32):
            state = tables.inspect(i)
            cards = np.where(np.array(state["face_up"]) == 1, 0, state["boards"]).reshape(3, 12)
            assert labels[i].tolist() == np.roll(cards, -seat, axis=0).ravel().tolist()


def contents(tables: env.VecEnv, row: np.ndarray) -> list[tuple[int, ...]]:
    """Content of every slot of an observation row: its token without the names of places."""
    group = next(group for group in tables.groups if group.slots)
    kept = [f for f, field in enumerate(group.fields) if not field.place]
    width = len(group.fields)
    tokens = row[group.offset :][: group.count * width].reshape(group.count, width)
    return [tuple(token[kept].tolist()) for token in tokens]


def roles(tables: env.VecEnv) -> list[Any]:
    """For every slot, what kinds of actions are about it, in which roles, how often."""
    used: list[list[tuple[int, int]]] = [[] for _ in range(tables.num_slots)]
    for shape in tables.info.action_shapes:
        for slot, role in shape.slots:
            used[slot].append((shape.kind, role))
    return [sorted(each) for each in used]


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s[2] <= 3], ids=setting_name)
def test_slots_have_one_class_exactly_if_they_look_the_same(setting: tuple[Case, str, int]) -> None:
    """Compared with lists and sorting; a column that is offered (Skyjo, voluntary clearing) stands apart."""
    case, name, players = setting
    tables = env.make(case.game, 24, players, case.rules[name], seed=1)
    blocks = tables.info.symmetric_blocks
    slots = tables.num_slots // players
    block_of = {slot: block for block in blocks for slot in block}
    role = roles(tables)
    decision = next(group for group in tables.groups if group.name == "decision").offset
    for _ in range(8):
        tables.random_steps(7, seed=2)
        classes = tables.slot_classes()
        for i in range(24):
            content = contents(tables, tables.obs[i])
            offered = int(tables.obs[i][decision + 3]) if case.game == "skyjo" else 0
            for first in range(0, tables.num_slots, slots):
                keys = []
                for slot in range(slots):
                    mates = sorted([(content[first + s], role[first + s]) for s in block_of[slot]])
                    apart = first == 0 and offered > 0 and slot % 4 == offered - 1
                    keys.append((content[first + slot], role[first + slot], mates, apart))
                expected = [keys.index(key) for key in keys]
                assert classes[i, first : first + slots].tolist() == expected


def test_slots_of_one_class_trade_places_without_a_change_of_the_observation() -> None:
    """Any two slots of Skyjo that share a class, also in different columns; only names of the past may change."""
    tables = env.make("skyjo", 64, 2, seed=3)
    blocks = [list(block) for block in tables.info.symmetric_blocks]
    place = np.zeros(tables.width, bool)
    for group in tables.groups:
        for f, field in enumerate(group.fields):
            place[group.offset + f :: len(group.fields)][: group.count] |= field.place
    within = across = 0
    for _ in range(12):
        tables.random_steps(5, seed=4)
        classes = tables.slot_classes()[:, :12]
        for i in range(64):
            content = contents(tables, tables.obs[i])
            for one, other in np.argwhere(classes[i][:, None] == classes[i]):
                if one >= other:
                    continue
                to = np.arange(12, dtype=np.int8)
                here, there = (next(block for block in blocks if slot in block) for slot in (one, other))
                if here == there:
                    to[[one, other]] = other, one
                    within += 1
                else:
                    rest = [
                        sorted((content[s], s) for s in block if s != slot)
                        for block, slot in ((here, one), (there, other))
                    ]
                    to[[one, other]] = other, one
                    for (_, a), (_, b) in zip(*rest, strict=True):
                        to[[a, b]] = b, a
                    across += 1
                own = tables.obs[i].copy()
                own[48:96] = 0  # the other player's board keeps its order: renaming is of the mover's slots
                renamed = tables.relabel(own[None], to[None])[0]
                assert own[:48][~place[:48]].tolist() == renamed[:48][~place[:48]].tolist()
                assert own[96:][~place[96:]].tolist() == renamed[96:][~place[96:]].tolist()
    assert within > 100
    assert across > 100
