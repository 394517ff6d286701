"""muzero.selfplay.worker: episodes are the games that were played, and checkpoints change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import env
from env.game_record import verify
from muzero.config import Config
from muzero.data.trajectory import Episode, pack_legal
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.search.planner import Plan
from muzero.selfplay.opponents import BOT_VS_BOT, PAST_SELF, SELF, OpponentMix
from muzero.selfplay.worker import MixedSelfPlay, SelfPlay, deal_seed, make_worker
from tests.selfplay.workers import NAMES, PURE, ObservedWorker, request, same, settings, weights


@pytest.mark.parametrize("players", [2, 3])
def test_episodes_are_the_games_that_were_played(players: int) -> None:
    """The recorded actions, taken again in a new environment, give the same game."""
    config = settings(players)
    worker = ObservedWorker(config)
    opponents = OpponentMix(0.2, (0.2, 0.2), 0.2)
    played = worker.play(request(16, opponents))
    assert len(played.episodes) >= 16
    assert set(played.opponents) == {SELF, PAST_SELF, BOT_VS_BOT, 0, 1}
    assert max(len(e) for e in played.episodes) > 64  # longer than the room of the trajectory buffer
    table = env.make("skyjo", 1, players, config.game.rules_for_training(), deal_seed(config), auto_reset=False)
    bots = [table.bot(name) for name in NAMES]
    for episode, deal, kind, points in zip(played.episodes, worker.ended, played.opponents, played.points, strict=True):
        episode.check()
        agent = deal % players
        table.reset(deals=[deal])
        for t in range(len(episode)):
            assert not table.done[0]
            assert (episode.obs[t] == table.obs[0]).all()
            assert episode.legal[t] == pack_legal(table.legal)[0]
            assert (episode.to_play[t], episode.phase[t]) == (table.to_play[0], table.phase[0])
            assert (episode.hidden[t] == table.true_cards(table.to_play)[0]).all()
            seated = opponents.seat(kind, agent, players, (config.seed, deal))[table.to_play[0]]
            own = seated == SELF
            assert own == (kind == SELF or (kind != BOT_VS_BOT and table.to_play[0] == agent))
            assert episode.has_policy[t] == own
            assert np.isnan(episode.values[t]).all() == (not own)
            assert (episode.policy[t].sum() > 0) == own
            if seated >= 0:
                assert episode.action[t] == table.bot_actions([bots[seated]] * players, config.seed)[0]
            table.step([int(episode.action[t])])
            assert (episode.rewards[t] == table.rewards[0]).all()
        assert table.done[0]
        assert episode.hidden[0].any()
        assert (episode.ranks == table.ranks[0]).all()
        assert episode.truncated == table.truncated[0]
        best = table.ranks[0] == 1
        assert points == (0.5 if kind in (SELF, BOT_VS_BOT) else best[agent] / best.sum())


def test_hidden_cards_are_recorded_and_have_no_influence_on_play(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are told of no hidden card play the same games."""
    plain = settings(search={"chance_source": "cards"})
    config = replace(plain, model=replace(plain.model, chance="game", card_beliefs=True))
    told, ignorant = SelfPlay(config), SelfPlay(config)
    for worker in (told, ignorant):
        worker.load_weights(weights(config), weights(config, 1))
    monkeypatch.setattr(ignorant.tables, "true_cards", lambda seat: np.zeros((4, 24), np.int8))
    one, other = (worker.play(request(6)) for worker in (told, ignorant))
    assert all(e.hidden.any() for e in one.episodes)
    assert not any(e.hidden.any() for e in other.episodes)
    without = [replace(e, hidden=np.zeros_like(e.hidden)) for e in one.episodes]
    assert same(replace(one, episodes=without), other)


def test_random_actions_are_taken_where_the_network_meets_itself_and_nowhere_else() -> None:
    """A share of the decisions is drawn among the legal actions; policy targets and values stay those of searches."""
    plain = settings(tables=32)
    config = replace(plain, selfplay=replace(plain.selfplay, explore=0.3))
    one, again, none = SelfPlay(config), SelfPlay(config), SelfPlay(plain)
    for worker in (one, again, none):
        worker.load_weights(weights(config), weights(config, 1))
    asked = request(64, OpponentMix(0.2, (0.2, 0.2), 0.2, 20.0))
    played = one.play(asked)
    shares = {SELF: 0.3, BOT_VS_BOT: 0.3, PAST_SELF: 0.0, 0: 0.0, 1: 0.0}
    taken: list[int] = []
    for kind, share in shares.items():
        games = [e for e, k in zip(played.episodes, played.opponents, strict=True) if k == kind]
        explored, own = (np.concatenate([getattr(e, name) for e in games]) for name in ("explored", "has_policy"))
        assert not (explored & ~own).any()
        assert abs(explored[own].mean() - share) < 5 * np.sqrt(share * (1 - share) / own.sum()) + 1e-9
        for e in games:
            e.check()
            assert np.isfinite(e.values[e.explored]).all()
            places = e.explored & (e.phase == env.describe("skyjo").phase_names.index("position")) & (e.legal == 0xFFF0)
            taken += e.action[places].tolist()
    assert set(taken) == set(range(4, 16)), "every place, however bad"
    assert max(np.bincount(taken)[4:]) < 4 * min(np.bincount(taken)[4:])
    assert same(played, again.play(asked))
    assert not any(e.explored.any() for e in none.play(asked).episodes)


def test_the_network_takes_over_games_of_bots() -> None:
    """It takes all seats from the decision that was drawn on; a checkpoint in between changes nothing."""
    config, opponents = settings(), OpponentMix(0.0, (0.0, 0.0), 1.0, 20.0)
    worker = ObservedWorker(config)
    played = worker.play(request(16, opponents))
    points = [opponents.takeover_decision(BOT_VS_BOT, (config.seed, deal)) for deal in worker.ended]
    lengths = [len(e) for e in played.episodes]
    assert any(point < length for point, length in zip(points, lengths, strict=True))
    for episode, point in zip(played.episodes, points, strict=True):
        assert episode.has_policy.tolist() == [t >= point for t in range(len(episode))]
    one, other = SelfPlay(config), SelfPlay(config)
    one.play(replace(request(1, opponents), steps=10))
    other.load(one.state())
    other.load_weights(one.network.state_dict())
    assert same(one.play(request(8, opponents)), other.play(request(8, opponents)))


def test_the_agent_takes_every_seat() -> None:
    worker = ObservedWorker(settings(players=3))
    played = worker.play(request(8, OpponentMix(0.0, (0.5, 0.5))))
    seats = {
        int(e.to_play[e.has_policy][0])
        for e, kind in zip(played.episodes, played.opponents, strict=True)
        if kind != SELF
    }
    assert seats == {0, 1, 2}


def test_a_past_self_plays_with_its_own_weights() -> None:
    config = settings()
    runs = []
    for seed in (1, 2):
        worker = SelfPlay(config)
        worker.load_weights(weights(config), weights(config, seed))
        runs.append(worker.play(request(4, OpponentMix(0.7, (0.0, 0.0)))))
    assert not same(*runs)
    moves = [[e.action[~e.has_policy].tolist() for e in run.episodes if not e.has_policy.all()] for run in runs]
    assert moves[0] != moves[1]
    alone = []
    for seed in (1, 2):
        worker = SelfPlay(config)
        worker.load_weights(weights(config), weights(config, seed))
        alone.append(worker.play(request(1, PURE)))
    assert same(*alone)


def test_search_values_are_stored_by_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a search that returns the number of each seat as its value, every row must list the seats in order."""
    worker = ObservedWorker(settings(players=3))
    plain = SelfPlay._plan

    def numbered(self: SelfPlay, planner: Any, rows: NDArray[np.int64], *rest: Any) -> Plan:
        seats = (self.tables.to_play[rows, None] + np.arange(3)) % 3
        found = plain(self, planner, rows, *rest)
        return replace(found, values=seats.astype(np.float32))

    monkeypatch.setattr(SelfPlay, "_plan", numbered)
    for episode in worker.play(request(3)).episodes:
        own = episode.has_policy
        assert (episode.values[own] == [0, 1, 2]).all()


def test_with_ego_backup_only_the_value_of_the_player_to_move_is_known() -> None:
    worker = ObservedWorker(settings(players=3, search={"backup": "ego"}))
    for episode in worker.play(request(1, PURE)).episodes:
        episode.check()
        known = ~np.isnan(episode.values)
        assert (known == (np.arange(3) == episode.to_play[:, None])).all()


def test_truncated_games_end_with_the_last_known_values() -> None:
    played = ObservedWorker(settings(players=3, max_decisions=20)).play(request(12))
    for episode in played.episodes:
        episode.check()
        assert (episode.truncated, len(episode)) == (True, 20)
        for seat in range(3):
            known = episode.values[~np.isnan(episode.values[:, seat]), seat]
            assert episode.last_values[seat] == (known[-1] if len(known) else 0)
    assert any(e.last_values.any() for e in played.episodes)
    whole = ObservedWorker(settings(players=3)).play(request(2))
    assert not any(e.truncated or e.last_values.any() for e in whole.episodes)


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, again, other = (ObservedWorker(settings(seed=seed)).play(request(5)) for seed in (3, 3, 4))
    assert same(one, again)
    assert not same(one, other)


@pytest.mark.parametrize("before", [0, 4])
def test_a_restored_worker_plays_on_as_if_never_interrupted(before: int) -> None:
    """Games in progress, their trajectories, the seats and the deals to come are all in the state."""
    config = settings()
    first, second = ObservedWorker(config), ObservedWorker(config)
    if before:
        first.play(request(before))
        second.play(request(1))  # whatever the other did so far does not matter
    state = {name: array.copy() for name, array in first.state().items()}
    second.load(state)
    for episodes in (1, 4):
        assert same(first.play(request(episodes)), second.play(request(episodes)))
    assert first.dealt[-1] == second.dealt[-1]


def test_a_state_of_another_number_of_tables_is_refused() -> None:
    worker = ObservedWorker(settings(tables=4))
    with pytest.raises(ValueError, match="self-play tables: expected 4, got 6"):
        worker.load(ObservedWorker(settings(tables=6)).state())


def test_workers_never_share_a_deal() -> None:
    config = settings(tables=9)
    dealt = []
    for number in range(3):
        worker = ObservedWorker(config, number, workers=3)
        assert worker.tables.num_envs == 3
        worker.play(request(3))
        dealt += worker.dealt
    assert len(dealt) >= 3 * (3 + 3)
    assert len(set(dealt)) == len(dealt)


def test_a_request_sets_simulations_opponents_and_games() -> None:
    worker = ObservedWorker(settings())
    played = worker.play(replace(request(2, PURE), simulations=7))
    searched = sum(int((np.bitwise_count(e.legal) > 1).sum()) for e in played.episodes)
    assert played.clock.simulations % 7 == 0
    assert played.clock.simulations >= 7 * searched > 0
    assert set(played.opponents) == {SELF}
    assert played.decisions == played.table_steps
    assert 2 <= len(played.episodes) < 2 + 4


def test_steps_limit_a_call_instead_of_games() -> None:
    """The same games come of the same steps, however these are split over calls."""
    whole = ObservedWorker(settings()).play(replace(request(1), steps=240))
    worker = ObservedWorker(settings())
    parts = [worker.play(replace(request(50), steps=moves)) for moves in (1, 39, 200)]
    assert [part.table_steps for part in parts] == [4, 39 * 4, 200 * 4]
    assert parts[0].episodes == []
    together = [e.obs.tobytes() for part in parts for e in part.episodes]
    assert together == [e.obs.tobytes() for e in whole.episodes]
    assert len(together) >= 2


# ---- several numbers of players ------------------------------------------------------------------------------------


def mixed_settings() -> Config:
    config = settings(players=3, tables=6, max_decisions=50)  # short games, most of them truncated
    return replace(config, selfplay=replace(config.selfplay, players=[2, 3, 4]))


def test_a_mixed_worker_plays_with_every_number_of_players() -> None:
    config = mixed_settings()
    worker = make_worker(config)
    assert isinstance(worker, MixedSelfPlay)
    worker.load_weights(weights(config.at_tables_for(4)), weights(config.at_tables_for(4), seed=1))
    played = worker.play(request(9))
    assert sorted({episode.num_players for episode in played.episodes}) == [2, 3, 4]
    assert len(played.episodes) == len(played.opponents) == len(played.points) >= 9
    assert played.table_steps >= sum(len(episode) for episode in played.episodes)
    assert played.decisions >= sum(int(episode.has_policy.sum()) for episode in played.episodes)
    for episode in played.episodes:
        episode.check()


def test_a_mixed_worker_plays_as_workers_for_each_number_would() -> None:
    config = mixed_settings()
    full = weights(config.at_tables_for(4))
    largest = Network(GameSpec.of("skyjo", 4), config.model)
    worker = make_worker(config)
    worker.load_weights(full)
    played = worker.play(request(6, PURE)).episodes
    for players in (2, 3, 4):
        alone = SelfPlay(config.at_tables_for(players))
        alone.load_weights(largest.weights_for(players, full))
        same_episodes(alone.play(request(2, PURE)).episodes, [e for e in played if e.num_players == players])


def test_a_restored_mixed_worker_plays_on_as_if_never_interrupted() -> None:
    config = mixed_settings()
    first, second = make_worker(config), make_worker(config)
    for worker in (first, second):
        worker.load_weights(weights(config.at_tables_for(4)), weights(config.at_tables_for(4), seed=1))
    first.play(request(3))
    second.load(first.state())
    same_episodes(first.play(request(6)).episodes, second.play(request(6)).episodes)


def same_episodes(ones: list[Episode], others: list[Episode]) -> None:
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        for name, array in vars(one).items():
            np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)


def test_finished_games_can_be_returned_as_game_records() -> None:
    """Records are of the games that end first, also of games that began before a checkpoint, and can be verified."""
    config = settings(players=3)
    worker = ObservedWorker(config)
    played = worker.play(replace(request(6), records=4))
    assert len(played.records) == 4
    for record, episode, deal in zip(played.records, played.episodes, worker.ended, strict=False):
        verify(record)
        assert record.actions == episode.action.tolist()
        assert record.ranks == episode.ranks.tolist()
        assert record.deal == deal
    kinds = {name for record in played.records for name in record.agents}
    assert "network" in kinds
    assert kinds <= {"network", "past network", *(f"bot:{name}" for name in NAMES)}
    assert worker.play(request(1)).records == []

    state = worker.state()
    other = ObservedWorker(config)
    other.load(state)
    first = other.play(replace(request(2), records=2)).records
    for record in first:
        verify(record)
