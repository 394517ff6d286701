"""A game in play: events, ends of rounds with all cards, and records that keep their promise."""

from __future__ import annotations

import pytest

from env.fair_deal import FairDeal
from env.game_record import verify
from muzero.arena.live_game import LiveGame


def played(game: str, players: int, seed: int = 5, **rules: object) -> LiveGame:
    """A whole game of the default bot."""
    live = LiveGame(game, players, rules or "official", FairDeal(seed, "ab"))
    bot = live.tables.bot(live.tables.default_bot)
    while not live.done:
        live.act(int(live.tables.bot_actions([bot] * players, 1)[0]))
    return live


@pytest.mark.parametrize(("game", "players"), [("skyjo", 3), ("lama", 3), ("skipbo", 2), ("kuhn", 2)])
def test_points_of_the_rounds_add_up_to_the_scores_and_the_record_is_good(game: str, players: int) -> None:
    live = played(game, players)
    ends = [event.round_end for event in live.events if event.round_end]
    assert [sum(end.points[seat] for end in ends) for seat in range(players)] == live.tables.scores[0].tolist()
    assert ends[-1].totals == live.tables.scores[0].tolist()
    assert all("end of the round" in end.text and "truncated" not in end.text for end in ends[:-1])
    assert all(event.text for event in live.events)
    record = live.record(["x"] * players)
    assert record.commitment == FairDeal(5, "ab").commitment
    verify(record)


def test_all_cards_of_a_skyjo_round_are_shown_and_their_sum_is_scored() -> None:
    live = played("skyjo", 3)
    doubled = 0
    for end in (event.round_end for event in live.events if event.round_end):
        for seat in range(3):
            cells = end.cards[seat]["board"]
            assert {cell["visibility"] for cell in cells} <= {1, 2}, "nothing is face down"
            total = sum(cell["value"] - 3 for cell in cells if cell["visibility"] == 1)
            assert end.points[seat] in (total, 2 * total)
            if end.points[seat] != total:
                doubled += 1
                assert f"Seat {seat} ended the round without the lowest sum: its {total} points are doubled" in end.text
    assert doubled, "one of the rounds of this deal is doubled"


def test_hands_that_are_left_are_shown_at_the_end_of_a_lama_round() -> None:
    end = next(event.round_end for event in played("lama", 2).events if event.round_end)
    loser = end.points.index(max(end.points))
    assert sum(kind["count"] for kind in end.cards[loser]["hand"]) > 0
    assert "cards:" in end.text or "card:" in end.text


def test_an_illegal_action_is_refused_and_changes_nothing() -> None:
    live = LiveGame("skyjo", 2, "official", FairDeal(1))
    before = live.view(0)
    with pytest.raises(ValueError, match="action: expected one of 0, 1, got 7"):
        live.act(7)
    assert live.view(0) == before


def test_only_the_player_to_move_is_told_the_legal_actions() -> None:
    live = LiveGame("skyjo", 2, "official", FairDeal(1))
    views = [live.view(seat) for seat in range(2)]
    assert views[live.to_play]["legal"] == [0, 1]
    assert views[1 - live.to_play]["legal"] == []


def test_a_game_is_restored_from_its_deal_and_actions() -> None:
    live = played("skyjo", 2, episode="round")
    again = LiveGame("skyjo", 2, {"episode": "round"}, FairDeal(5, "ab"))
    again.replay(live.actions)
    assert [again.view(seat) for seat in range(2)] == [live.view(seat) for seat in range(2)]
