"""Review of finished games: sure mistakes are found, good moves are not blamed, and the ledger adds up."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from env.fair_deal import FairDeal
from env.game_record import GameRecord
from muzero.agents.agent_spec import AgentSpec
from muzero.arena.analysis import Analyst
from muzero.arena.live_game import LiveGame
from muzero.arena.playouts import PlayoutAnalyst, Playouts, play_out, playout_report
from muzero.arena.position import Position
from muzero.arena.review import Review, judge

TABLES = [("skyjo", 2), ("skyjo", 3), ("lama", 3), ("skipbo", 2)]
ROUND = {"episode": "round"}


@cache
def playouts() -> PlayoutAnalyst:
    """Analysis with few worlds; value functions are fitted once for all tests."""
    return PlayoutAnalyst(16)


def played(game: str, players: int, first: str, seed: int = 3) -> GameRecord:
    """Game of a bot in seat 0 against default bots."""
    rules = ROUND if game != "skipbo" else {"stock": 5}
    live = LiveGame(game, players, rules, FairDeal(seed))
    bots = [live.tables.bot(first)] + [live.tables.bot(live.tables.default_bot)] * (players - 1)
    while not live.done:
        live.act(int(live.tables.bot_actions(bots)[0]))
    return live.record([first] + ["other"] * (players - 1))


def reviewed(record: GameRecord, seat: int = 0, analyst: Analyst | None = None) -> Review:
    review = Review(record, seat, playouts(), analyst)
    while review.step():
        assert not review.content()["complete"]
    return review


@pytest.mark.parametrize(("game", "players"), TABLES)
def test_luck_and_skill_add_up_to_the_result(game: str, players: int) -> None:
    record = played(game, players, "random")
    ledger = reviewed(record).content()["ledger"]
    best = np.array(record.ranks) == 1
    for seat in range(players):
        parts = sum(ledger[name][seat] for name in ("deal", "luck", "own", "others"))
        assert ledger["fair"] + parts == pytest.approx(best[seat] / best.sum(), abs=1e-3)
        entered = sum(luck[seat] + skill[seat] for _, luck, skill in ledger["entries"])
        assert entered == pytest.approx(parts - ledger["deal"][seat], abs=1e-2)
    assert len(ledger["entries"]) == len(record.actions)
    luck = np.array([entry[1] for entry in ledger["entries"]])
    assert np.abs(luck).sum() > 0.05, "cards were turned over"
    assert np.allclose(luck.sum(1), 0, atol=1e-3), "one seat's luck is the others' misfortune"


@cache
def telling_position(game: str) -> tuple[LiveGame, int, int]:
    """Position of a game in which the worst action is much worse than the best; with both actions."""
    record = played(game, 2, "greedy" if game != "lama" else "strategy_1")
    live, found = LiveGame(game, 2, record.rules, FairDeal(3)), []
    for turn, action in enumerate(record.actions):
        if len(live.legal) > 1:
            tried = playouts().play_out(live.tables, turn, 64)
            worst = tried.legal[int(tried.own().mean(0).argmin())]
            found.append((tried.gain(tried.best(), worst)[0], turn, worst))
        live.act(action)
    _, turn, worst = max(found)
    live = LiveGame(game, 2, record.rules, FairDeal(3))
    live.replay(record.actions[:turn])
    return live, playouts().play_out(live.tables, 99 << 32, 640).best(), worst


@pytest.mark.parametrize("game", ["skyjo", "lama", "skipbo"])
def test_the_worst_action_is_a_sure_mistake_and_the_best_one_is_none(game: str) -> None:
    live, best, worst = telling_position(game)
    found = judge(live.tables, 0, worst, playouts(), None)
    assert found.sure
    assert found.cost > 3 * found.error
    assert found.best != worst
    assert {found.best, worst} <= {each["action"] for each in found.actions}
    assert not judge(live.tables, 0, best, playouts(), None).sure


def test_a_trained_agent_and_the_simulation_must_agree_on_a_mistake() -> None:
    live, best, worst = telling_position("skyjo")
    analyst = Analyst(AgentSpec.parse("agent:skyjo-belief,simulations=16"), 8)
    report = analyst.analyse([Position.at(live.tables)])[0]
    values = {each["action"]: {**each, "q": float(each["action"] == best)} for each in report["actions"]}
    agrees = {**report, "action": best, "actions": list(values.values())}
    assert judge(live.tables, 0, worst, playouts(), agrees).sure
    against = {**agrees, "action": worst}
    assert not judge(live.tables, 0, worst, playouts(), against).sure, "the agent would have played it"
    wrong = {**agrees, "action": worst, "actions": [{**each, "q": float(a == worst)} for a, each in values.items()]}
    assert not judge(live.tables, 0, best, playouts(), wrong).sure, "the simulation finds it worse"


def test_a_review_with_a_trained_agent_judges_every_choice_of_its_seat() -> None:
    record = played("skyjo", 2, "threshold", seed=11)
    analyst = Analyst(AgentSpec.parse("agent:skyjo-belief,simulations=16"), 8)
    found = reviewed(record, 1, analyst).content()
    assert "skyjo-belief" in found["judge"]
    live, choices = LiveGame("skyjo", 2, record.rules, FairDeal(11)), 0
    for action in record.actions:
        choices += live.to_play == 1 and len(live.legal) > 1
        live.act(action)
    assert found["judged"] == choices


def test_gains_are_measured_in_the_same_worlds_and_luck_cancels_out() -> None:
    chances = np.zeros((4, 2, 2))
    chances[:, 0, 0] = [0.1, 0.5, 0.9, 0.3]
    chances[:, 1, 0] = chances[:, 0, 0] + 0.05
    chances[:, :, 1] = 1 - chances[:, :, 0]
    found = Playouts(0, (3, 7), chances)
    assert found.best() == 7
    gain, error = found.gain(7, 3)
    assert gain == pytest.approx(0.05)
    assert error == pytest.approx(0, abs=1e-12)
    assert found.chance_best().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("game", "players"),
    [*TABLES, ("lama", 6), *(pytest.param(*most, marks=pytest.mark.slow) for most in (("skyjo", 8), ("skipbo", 6)))],
)
def test_every_table_can_be_analysed_with_the_real_rules(game: str, players: int) -> None:
    live = LiveGame(game, players, "official" if game == "skipbo" else ROUND, FairDeal(5))
    for _ in range(3):
        live.act(live.legal[0])
    report = playouts().analyse([live.tables])[0]
    assert [each["action"] for each in report["actions"]] == live.legal
    assert sum(each["policy"] for each in report["actions"]) == pytest.approx(1, abs=1e-2)
    assert sum(report["winner"]) == pytest.approx(1, abs=1e-2)
    assert [sum(row) for row in report["ranks"]] == pytest.approx([1] * players, abs=1e-2)
    assert report["action"] in live.legal


def test_a_simulation_tells_nothing_about_the_hidden_cards() -> None:
    """Means over many worlds are the same, within their errors, whatever the hidden cards are."""
    live = LiveGame("lama", 2, ROUND, FairDeal(4))
    model = playouts().model(live.tables)
    true = play_out(live.tables, model, 4096, 1 << 40)
    mean, error = true.own().mean(0), true.own().std(0) / 64
    for key in range(3):
        live.tables.determinize(live.to_play, key)
        other = play_out(live.tables, model, 4096, (7 + key) << 40)
        assert (np.abs(other.own().mean(0) - mean) < 6 * error + 1e-9).all()
        position = Position.at(live.tables)
        assert playout_report(position, true)["belief"] == playout_report(position, other)["belief"]
