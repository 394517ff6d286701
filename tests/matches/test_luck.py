"""Luck of games: mean 0 for any value function, adjusted matches, ledgers of games."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import env
from env.game_record import GameRecord
from muzero.agents.agent_spec import load_value_model
from muzero.agents.bots import Bot
from muzero.agents.value_model import COMPONENTS, PublicFeatures, ValueModel
from muzero.matches.api import play_match as play_from_python
from muzero.matches.games import Games
from muzero.matches.luck import COLUMNS, KINDS, MOST_LUCK, LuckTracker, luck_ledger, luckiest
from muzero.matches.match import play_match
from muzero.matches.match_config import MatchConfig, with_defaults
from muzero.matches.paired_games import paired_games
from muzero.matches.results import markdown
from muzero.matches.store import InFlightStore
from tests.matches.games_of_bots import BOTS, assert_same_games

ROUND = {"episode": "round"}
LUCKY = replace(BOTS, b="bot:column_hunter", games=200, batch=100, rules=ROUND, luck="linear")


def bad_values(game: str, players: int, rules: env.Rules) -> ValueModel:
    """Value function with random weights: it knows nothing, and is steep, so that a bias would be large."""
    info = env.describe(game, players, rules)
    features = PublicFeatures(info)
    weights = np.random.default_rng(1).normal(size=(features.size, 2)) * 0.05
    weights[0] = 0
    return ValueModel(features, weights, np.array([0.3, 0.2, 2, -1, 0.5, 1, 1, 0]), float(info.score_scale))


CASES: dict[str, tuple[str, int, dict[str, Any], str, str]] = {
    "skyjo": ("skyjo", 2, ROUND, "greedy", "column_hunter"),
    "skyjo_reshuffled": ("skyjo", 3, {"deck": [3] * 15, **ROUND}, "greedy", "risk_aware"),
    "skyjo_rounds": ("skyjo", 2, {"target": 30}, "greedy", "naive"),
    "skyjo_voluntary": ("skyjo", 2, {"setup": "chosen", "clearing": "voluntary", **ROUND}, "greedy", "column_hunter"),
    "lama": ("lama", 2, {"target": 20}, "strategy_1", "strategy_3"),
    "lama_of_4": ("lama", 4, {"target": 20}, "strategy_1", "strategy_2"),
    "skipbo": ("skipbo", 2, {"stock": 5}, "hpvp", "wild_saver"),
    "skipbo_reshuffled": ("skipbo", 4, {"stock": 8, "deck": [6] * 13}, "hpvp", "greedy"),
}


MORE = ("skyjo_rounds", "skyjo_voluntary", "lama_of_4", "skipbo_reshuffled")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in MORE else case for case in CASES]
)
def test_luck_has_mean_zero_for_a_bad_value_function(case: str) -> None:
    game, players, rules, a, b = CASES[case]
    model, deals = bad_values(game, players, rules), 1000 // players
    settings: dict[str, Any] = {"game": game, "players": players, "rules": rules, "seed": 7, "batch": 1000}
    games = paired_games(Bot(a), Bot(b), deals, **settings, luck=model)
    luck = games.luck.reshape(deals, players, len(COLUMNS)).mean(1)
    spread = luck.std(0, ddof=1)
    assert (spread > 0).sum() >= len(COLUMNS) // 2, "there is luck to take out"
    z = luck.mean(0) / np.maximum(spread, 1e-12) * np.sqrt(deals)
    assert np.abs(z).max() < 3.7, dict(zip(COLUMNS, z.round(1), strict=True))
    assert np.abs(games.luck[:, : len(KINDS)].sum(1)).max() <= MOST_LUCK + 1e-9


def test_odds_of_one_player_would_give_biased_luck_where_others_hold_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: copies dealt from the view of the player to move are not what really comes."""
    game, players, rules, a, b = CASES["lama"]
    real = env.VecEnv.determinize

    def from_the_movers_view(self: env.VecEnv, seat: Any, seed: Any) -> None:
        real(self, self.to_play.copy(), seed)

    monkeypatch.setattr(env.VecEnv, "determinize", from_the_movers_view)
    settings: dict[str, Any] = {"game": game, "players": players, "rules": rules, "seed": 7, "batch": 1000}
    games = paired_games(Bot(a), Bot(b), 700, **settings, luck=bad_values(game, players, rules))
    luck = games.luck.reshape(700, players, len(COLUMNS)).mean(1)
    assert np.abs(luck.mean(0) / luck.std(0) * np.sqrt(700)).max() > 3.7


def test_adjusted_and_plain_win_rates_agree_and_the_interval_is_narrower() -> None:
    result, games = play_match(replace(LUCKY, games=400), quiet=True)
    found = result["luck"]
    assert found["value"] == "linear"
    assert abs(found["win_rate"] - result["win_rate"]) < 0.06
    plain = result["paired_high"] - result["paired_low"]
    assert found["high"] - found["low"] < 0.9 * plain
    assert found["factor"] > 1.3
    assert found["correlation"] > 0.5
    difference = result["mean_score_b"] - result["mean_score_a"]
    assert found["score_low"] - 1 < difference < found["score_high"] + 1
    assert "win rate, luck taken out" in markdown(result)
    assert games.luck.shape == (400, len(COLUMNS))


def test_luck_changes_no_game_and_depends_on_no_batch() -> None:
    _, plain = play_match(replace(LUCKY, luck=""), quiet=True)
    _, measured = play_match(LUCKY, quiet=True)
    assert_same_games(replace(plain, luck=measured.luck), measured)
    _, again = play_match(replace(LUCKY, batch=34), quiet=True)
    assert again.luck == pytest.approx(measured.luck)


def test_identical_agents_stay_at_the_fair_share() -> None:
    for players in (2, 3):
        result, _ = play_match(replace(LUCKY, b="bot:greedy", players=players, games=60), quiet=True)
        assert result["luck"]["win_rate"] == pytest.approx(1 / players)


def test_a_match_may_stop_early_by_adjusted_deals() -> None:
    result, games = play_match(replace(LUCKY, b="bot:naive", games=4000, stop=0.05, better_by=0.02), quiet=True)
    assert result["sequential"]["decision"] == "better"
    assert len(games) < 1000
    assert "better by 0.02?" in markdown(result)
    two_sided, _ = play_match(replace(LUCKY, b="bot:naive", games=4000, stop=0.05), quiet=True)
    assert two_sided["sequential"]["decision"] == "higher"
    assert 0.5 < two_sided["sequential"]["low"] < two_sided["sequential"]["high"]


def test_saved_luck_is_read_again_and_other_value_functions_start_again(tmp_path: Path) -> None:
    config = replace(LUCKY, out=str(tmp_path / "match.json"))
    result, games = play_match(config, quiet=True)
    again, same = play_match(config, quiet=True)
    assert again["luck"] == result["luck"]
    assert_same_games(games, same)
    with pytest.warns(RuntimeWarning, match="the match starts again"):
        other, _ = play_match(replace(config, luck=""), quiet=True)
    assert "luck" not in other


def test_games_in_flight_are_resumed_with_their_luck(tmp_path: Path) -> None:
    model = load_value_model("linear", "skyjo", 2, ROUND)
    settings: dict[str, Any] = {"game": "skyjo", "rules": ROUND, "luck": model}
    expected = paired_games(Bot("greedy"), Bot("naive"), 4, **settings)
    store = InFlightStore(tmp_path / "actions.npz", "key", every=0.0)
    made = paired_games(Bot("greedy"), Bot("naive"), 4, **settings, in_flight=store)
    store.save(store.load()[:20])
    resumed = paired_games(Bot("greedy"), Bot("naive"), 4, **settings, in_flight=store)
    for found in (made, resumed):
        assert_same_games(expected, found)


def test_games_without_luck_can_still_be_made_and_joined() -> None:
    _, plain = play_match(replace(LUCKY, luck="", games=20), quiet=True)
    assert plain.luck.shape == (20, 0)
    assert plain.select(np.arange(5)).luck.shape == (5, 0)
    assert isinstance(plain, Games)


def test_a_network_can_be_the_value_function(run: Path) -> None:
    config = MatchConfig(a="bot:greedy", b="bot:naive", games=20, game="skyjo", rules=ROUND, workers=1)
    config = with_defaults(replace(config, luck=f"checkpoint:{run}"))
    assert config.luck == f"checkpoint:{run},iteration=7"
    result, _ = play_match(config, quiet=True)
    assert 0 <= result["luck"]["low"] <= result["luck"]["high"] <= 1


def test_objects_play_with_luck_too() -> None:
    result, _ = play_from_python(Bot("greedy"), "bot:naive", 20, game="skyjo", rules=ROUND, luck="linear")
    assert result["luck"]["factor"] > 0


def test_a_spread_of_outcomes_is_unbiased_too() -> None:
    model = load_value_model("linear", "skyjo", 2, ROUND)
    lucks = []
    for number in (0, 3):
        tables = env.make("skyjo", 400, 2, ROUND, seed=3, auto_reset=False)
        bots = [tables.bot("greedy")] * 2
        tracker = LuckTracker(model, tables, spread=number)
        while not tables.done.all():
            tracker.step(tables, tables.bot_actions(bots))
        lucks.append(tracker.luck[:, 0, 0])
    difference = lucks[1] - lucks[0]
    assert abs(difference.mean()) < 3.5 * difference.std() / np.sqrt(400)
    assert np.corrcoef(*lucks)[0, 1] > 0.7


def record_of_a_game(game: str, rules: dict[str, Any]) -> GameRecord:
    tables = env.make(game, 1, 2, rules, seed=4, auto_reset=False)
    tables.reset(deals=[9])
    bots, actions = [tables.bot(tables.default_bot)] * 2, []
    while not tables.done[0]:
        actions.append(int(tables.bot_actions(bots)[0]))
        tables.step(np.array([actions[-1]]))
    return GameRecord.of(tables, 0, seed=4, deal=9, agents=["a", "b"], actions=actions)


@pytest.mark.parametrize(("game", "rules"), [("skyjo", {"target": 40}), ("lama", {}), ("skipbo", {"stock": 5})])
def test_the_ledger_of_a_game_lists_its_events_in_order(game: str, rules: dict[str, Any]) -> None:
    record = record_of_a_game(game, rules)
    events = luck_ledger(record, load_value_model("linear", game, 2, rules))
    decisions = [event.decision for event in events]
    assert decisions == sorted(set(decisions))
    assert decisions[-1] < len(record.actions)
    assert {event.kind for event in events} == set(KINDS)
    for event in events:
        assert sum(event.win) == pytest.approx(0, abs=1e-6), "the luck of one is the bad luck of the other"
        assert sum(event.score) == pytest.approx(0, abs=1e-6)
    assert all(event.outcome > 0 for event in events if event.kind == "card" and game == "skyjo")
    most = luckiest(events, 0, 3)
    assert len(most) == 3
    assert abs(most[0].win[0]) == max(abs(event.win[0]) for event in events)


def test_the_ledger_adds_up_to_the_luck_of_the_game() -> None:
    record = record_of_a_game("skyjo", ROUND)
    model = load_value_model("linear", "skyjo", 2, ROUND)
    tables = env.make("skyjo", 1, 2, ROUND, seed=4, auto_reset=False)
    tables.reset(deals=[9])
    tracker = LuckTracker(model, tables)
    for action in record.actions:
        tracker.step(tables, np.array([action]))
    first = len(KINDS) * COMPONENTS.index("score")
    score = tracker.luck[0, :, first : first + len(KINDS)].sum(1) * model.scale
    assert np.sum([event.score for event in luck_ledger(record, model)], axis=0) == pytest.approx(score)
