"""muzero.selfplay.worker: what is recorded is what happened, and nothing depends on when it was saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import env
from env.game_record import verify
from muzero.config import Config, GameConfig, LearnerConfig, SearchConfig, SelfPlayConfig
from muzero.data.targets import Episode, pack_legal
from muzero.model.network import Network, load_model_config
from muzero.model.spec import GameSpec
from muzero.search.planner import Plan
from muzero.selfplay.opponents import BOTS, PAST_SELF, SELF, OpponentMix
from muzero.selfplay.worker import MixedSelfPlay, PlayRequest, PlayResult, SelfPlay, deal_seed, last_known, make_worker

NAMES = ["greedy_value", "info_first"]
MIXED = OpponentMix(0.3, (0.2, 0.2))
PURE = OpponentMix(0.0, (0.0, 0.0))


def settings(
    players: int = 2, tables: int = 4, seed: int = 3, search: dict[str, Any] | None = None, **rules: Any
) -> Config:
    model = replace(load_model_config("tiny", "belief"), width=16, hidden=32, global_dim=32)
    training = {"episode": "round", "round_reward": 2.0, **rules}
    return Config(
        seed=seed,
        game=GameConfig("skyjo", players=players, training=training, bots=NAMES),
        model=model,
        search=SearchConfig(simulations=2, max_considered=2, **{"backend": "native", **(search or {})}),
        selfplay=SelfPlayConfig(tables=tables),
        learner=LearnerConfig(),
    )


def weights(config: Config, seed: int = 0) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    network = Network(GameSpec.of(config.game.name, config.game.players), config.model)
    return {name: p.detach() for name, p in network.named_parameters()}


def orders(episodes: int, mixture: OpponentMix = MIXED) -> PlayRequest:
    return PlayRequest(version=0, episodes=episodes, moves=0, simulations=2, temperature=1.0, mixture=mixture)


class Watched(SelfPlay):
    """Notes which deals are dealt, and of which deal each game was."""

    def __init__(self, config: Config, worker: int = 0, workers: int = 1) -> None:
        super().__init__(config, worker, workers)
        self.load_weights(weights(config), weights(config, seed=1))
        self.dealt: list[int] = []
        self.ended: list[int] = []
        self._deal: dict[int, int] = {}
        reset = self.tables.reset

        def noting(seed: int, *, deals: list[int], tables: list[int]) -> None:
            self.dealt += deals
            self._deal.update(zip(tables, deals, strict=True))
            reset(seed, deals=deals, tables=tables)

        self.tables.reset = noting  # type: ignore[method-assign, assignment]

    def _collect(self, over: NDArray[np.int64], played: PlayResult) -> None:
        self.ended += [self._deal.get(int(row), -1) for row in over]  # -1: dealt before a checkpoint
        super()._collect(over, played)


def same(one: PlayResult, other: PlayResult) -> bool:
    """Whether all but the clocks is the same to the byte."""

    def bytes_of(episode: Episode) -> list[Any]:
        return [x.tobytes() if isinstance(x, np.ndarray) else x for x in vars(episode).values()]

    assert len(one.episodes) > 0
    return (one.opponents, one.points, one.decisions, one.steps) == (
        other.opponents,
        other.points,
        other.decisions,
        other.steps,
    ) and [bytes_of(e) for e in one.episodes] == [bytes_of(e) for e in other.episodes]


@pytest.mark.parametrize("players", [2, 3])
def test_episodes_are_what_happened(players: int) -> None:
    """The recorded actions, taken again in a new environment, give the same game."""
    config = settings(players)
    worker = Watched(config)
    mixture = OpponentMix(0.2, (0.2, 0.2), 0.2)
    played = worker.play(orders(16, mixture))
    assert len(played.episodes) >= 16
    assert set(played.opponents) == {SELF, PAST_SELF, BOTS, 0, 1}
    assert max(len(e) for e in played.episodes) > 64  # the record had to make room
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
            seated = mixture.seat(kind, agent, players, (config.seed, deal))[table.to_play[0]]
            own = seated == SELF
            assert own == (kind == SELF or (kind != BOTS and table.to_play[0] == agent))
            assert episode.has_policy[t] == own
            assert np.isnan(episode.values[t]).all() == (not own)
            assert (episode.policy[t].sum() > 0) == own
            if seated >= 0:
                assert episode.action[t] == table.bot_actions([bots[seated]] * players, config.seed)[0]
            table.step([int(episode.action[t])])
            assert (episode.rewards[t] == table.rewards[0]).all()
        assert table.done[0]
        assert (episode.ranks == table.ranks[0]).all()
        assert episode.truncated == table.truncated[0]
        best = table.ranks[0] == 1
        assert points == (0.5 if kind in (SELF, BOTS) else best[agent] / best.sum())


def test_the_network_takes_over_watched_games() -> None:
    """All seats, from the decision that the mixture names on; and nothing changes if a checkpoint lies between."""
    config, mixture = settings(), OpponentMix(0.0, (0.0, 0.0), 1.0, 20.0)
    worker = Watched(config)
    played = worker.play(orders(16, mixture))
    points = [mixture.takeover_decision(BOTS, (config.seed, deal)) for deal in worker.ended]
    lengths = [len(e) for e in played.episodes]
    assert any(point < length for point, length in zip(points, lengths, strict=True))
    for episode, point in zip(played.episodes, points, strict=True):
        assert episode.has_policy.tolist() == [t >= point for t in range(len(episode))]
    one, other = SelfPlay(config), SelfPlay(config)
    one.play(replace(orders(1, mixture), moves=10))
    other.load(one.state())
    other.load_weights(one.network.state_dict())
    assert same(one.play(orders(8, mixture)), other.play(orders(8, mixture)))


def test_the_agent_takes_every_seat() -> None:
    worker = Watched(settings(players=3))
    played = worker.play(orders(8, OpponentMix(0.0, (0.5, 0.5))))
    seats = {
        int(e.to_play[e.has_policy][0])
        for e, kind in zip(played.episodes, played.opponents, strict=True)
        if kind != SELF
    }
    assert seats == {0, 1, 2}


def test_rivals_play_with_their_own_weights() -> None:
    config = settings()
    runs = []
    for seed in (1, 2):
        worker = SelfPlay(config)
        worker.load_weights(weights(config), weights(config, seed))
        runs.append(worker.play(orders(4, OpponentMix(0.7, (0.0, 0.0)))))
    assert not same(*runs)
    moves = [[e.action[~e.has_policy].tolist() for e in run.episodes if not e.has_policy.all()] for run in runs]
    assert moves[0] != moves[1]
    alone = []
    for seed in (1, 2):
        worker = SelfPlay(config)
        worker.load_weights(weights(config), weights(config, seed))
        alone.append(worker.play(orders(1, PURE)))
    assert same(*alone)


def test_values_belong_to_their_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that says its seats' numbers: every row must list them in order."""
    worker = Watched(settings(players=3))
    plain = SelfPlay._plan

    def numbered(self: SelfPlay, planner: Any, rows: NDArray[np.int64], *rest: Any) -> Plan:
        seats = (self.tables.to_play[rows, None] + np.arange(3)) % 3
        found = plain(self, planner, rows, *rest)
        return replace(found, values=seats.astype(np.float32))

    monkeypatch.setattr(SelfPlay, "_plan", numbered)
    for episode in worker.play(orders(3)).episodes:
        own = episode.has_policy
        assert (episode.values[own] == [0, 1, 2]).all()


def test_one_value_is_the_movers() -> None:
    worker = Watched(settings(players=3, search={"backup": "ego"}))
    for episode in worker.play(orders(1, PURE)).episodes:
        episode.check()
        known = ~np.isnan(episode.values)
        assert (known == (np.arange(3) == episode.to_play[:, None])).all()


def test_games_that_are_cut_off() -> None:
    played = Watched(settings(players=3, max_decisions=20)).play(orders(12))
    for episode in played.episodes:
        episode.check()
        assert (episode.truncated, len(episode)) == (True, 20)
        for seat in range(3):
            known = episode.values[~np.isnan(episode.values[:, seat]), seat]
            assert episode.last_values[seat] == (known[-1] if len(known) else 0)
    assert any(e.last_values.any() for e in played.episodes)
    whole = Watched(settings(players=3)).play(orders(2))
    assert not any(e.truncated or e.last_values.any() for e in whole.episodes)


def test_last_known_by_hand() -> None:
    nan = np.nan
    values = np.array([[1, nan, nan], [2, 5, nan], [nan, 6, nan], [nan, nan, nan]], np.float32)
    assert last_known(values).tolist() == [2, 6, 0]
    assert last_known(values).dtype == np.float32


def test_same_seed_same_bytes() -> None:
    one, again, other = (Watched(settings(seed=seed)).play(orders(5)) for seed in (3, 3, 4))
    assert same(one, again)
    assert not same(one, other)


@pytest.mark.parametrize("before", [0, 4])
def test_play_goes_on_from_its_state(before: int) -> None:
    """Games under way, their record, the seats and the deals to come are all in the state."""
    config = settings()
    first, second = Watched(config), Watched(config)
    if before:
        first.play(orders(before))
        second.play(orders(1))  # whatever the other did so far does not matter
    state = {name: array.copy() for name, array in first.state().items()}
    second.load(state)
    for episodes in (1, 4):
        assert same(first.play(orders(episodes)), second.play(orders(episodes)))
    assert first.dealt[-1] == second.dealt[-1]


def test_a_state_of_other_tables_is_refused() -> None:
    worker = Watched(settings(tables=4))
    with pytest.raises(ValueError, match="self-play tables: expected 4, got 6"):
        worker.load(Watched(settings(tables=6)).state())


def test_workers_never_share_a_deal() -> None:
    config = settings(tables=9)
    dealt = []
    for number in range(3):
        worker = Watched(config, number, workers=3)
        assert worker.tables.num_envs == 3
        worker.play(orders(3))
        dealt += worker.dealt
    assert len(dealt) >= 3 * (3 + 3)
    assert len(set(dealt)) == len(dealt)


def test_orders_are_obeyed() -> None:
    worker = Watched(settings())
    played = worker.play(replace(orders(2, PURE), simulations=7))
    searched = sum(int((np.bitwise_count(e.legal) > 1).sum()) for e in played.episodes)
    assert played.clock.simulations % 7 == 0
    assert played.clock.simulations >= 7 * searched > 0
    assert set(played.opponents) == {SELF}
    assert played.decisions == played.steps
    assert 2 <= len(played.episodes) < 2 + 4


def test_moves_bound_a_call_instead_of_games() -> None:
    """However the steps are split over calls, the same games come of them."""
    whole = Watched(settings()).play(replace(orders(1), moves=240))
    worker = Watched(settings())
    parts = [worker.play(replace(orders(50), moves=moves)) for moves in (1, 39, 200)]
    assert [part.steps for part in parts] == [4, 39 * 4, 200 * 4]
    assert parts[0].episodes == []
    together = [e.obs.tobytes() for part in parts for e in part.episodes]
    assert together == [e.obs.tobytes() for e in whole.episodes]
    assert len(together) >= 2


# ---- several numbers of players ------------------------------------------------------------------------------------


def mixed_settings() -> Config:
    config = settings(players=3, tables=6)
    return replace(config, selfplay=replace(config.selfplay, players=[2, 3, 4]))


def test_a_mixed_worker_plays_with_every_number_of_players() -> None:
    config = mixed_settings()
    worker = make_worker(config)
    assert isinstance(worker, MixedSelfPlay)
    worker.load_weights(weights(config.at_tables_for(4)), weights(config.at_tables_for(4), seed=1))
    played = worker.play(orders(9))
    assert sorted({episode.num_players for episode in played.episodes}) == [2, 3, 4]
    assert len(played.episodes) == len(played.opponents) == len(played.points) >= 9
    assert played.steps >= sum(len(episode) for episode in played.episodes)
    assert played.decisions >= sum(int(episode.has_policy.sum()) for episode in played.episodes)
    for episode in played.episodes:
        episode.check()


def test_a_mixed_worker_plays_as_workers_for_each_number_would() -> None:
    config = mixed_settings()
    full = weights(config.at_tables_for(4))
    largest = Network(GameSpec.of("skyjo", 4), config.model)
    worker = make_worker(config)
    worker.load_weights(full)
    played = worker.play(orders(6, PURE)).episodes
    for players in (2, 3, 4):
        alone = SelfPlay(config.at_tables_for(players))
        alone.load_weights(largest.weights_for(players, full))
        same_episodes(alone.play(orders(2, PURE)).episodes, [e for e in played if e.num_players == players])


def test_a_mixed_worker_goes_on_from_its_state() -> None:
    config = mixed_settings()
    first, second = make_worker(config), make_worker(config)
    for worker in (first, second):
        worker.load_weights(weights(config.at_tables_for(4)), weights(config.at_tables_for(4), seed=1))
    first.play(orders(3))
    second.load(first.state())
    same_episodes(first.play(orders(6)).episodes, second.play(orders(6)).episodes)


def same_episodes(ones: list[Episode], others: list[Episode]) -> None:
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        for name, array in vars(one).items():
            np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)


def test_games_can_be_kept_as_replays() -> None:
    """Those that end first, also of games that began before a checkpoint; they are the games that were played."""
    config = settings(players=3)
    worker = Watched(config)
    played = worker.play(replace(orders(6), replays=4))
    assert len(played.replays) == 4
    for replay, episode, deal in zip(played.replays, played.episodes, worker.ended, strict=False):
        verify(replay)
        assert replay.actions == episode.action.tolist()
        assert replay.ranks == episode.ranks.tolist()
        assert replay.deal == deal
    kinds = {name for replay in played.replays for name in replay.agents}
    assert "network" in kinds
    assert kinds <= {"network", "past network", *(f"bot:{name}" for name in NAMES)}
    assert worker.play(orders(1)).replays == []

    state = worker.state()
    other = Watched(config)
    other.load(state)
    first = other.play(replace(orders(2), replays=2)).replays
    for replay in first:
        verify(replay)
