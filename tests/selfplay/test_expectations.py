"""muzero.selfplay.expectations: luck of events by the values of the network, and games that do not depend on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agents import Searcher, Situation
from muzero.agents.loading import load_agent
from muzero.config import Config
from muzero.data.match_table import MatchTable
from muzero.data.seats import to_seats
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.search.judge import make_native_values
from muzero.selfplay.expectations import Expectations
from muzero.selfplay.worker import SelfPlay
from muzero.training.preflight import check_game
from tests.composing import compose_config
from tests.selfplay.workers import request, same, settings, weights

ROUND: dict[str, Any] = {"episode": "round", "round_reward": 2.0, "max_decisions": 200}
Floats = NDArray[np.float64]


def steep_network(config: Config, seed: int = 0) -> Network:
    """Network that knows nothing and whose values differ a lot between positions, so that a bias would be large."""
    network = Network(GameSpec.of("skyjo", config.game.players), config.model).eval()
    network.load_state_dict(weights(config, seed), strict=False)
    with torch.no_grad():
        network.value.weight.mul_(20)
    return network


def expectations(
    network: Network, outcomes: int, discount: float = 1.0, match: MatchTable | None = None
) -> Expectations:
    """Expectations by native passes."""
    native = make_native_values(network)
    assert native is not None
    return Expectations(network, native, outcomes, discount, match)


def played(judge: Expectations, games: int, players: int = 2) -> tuple[Floats, Floats]:
    """Sums of luck [games, P] in games of a bot, and numbers of their events [games]."""
    tables = env.make("skyjo", games, players, ROUND, seed=3, auto_reset=False)
    total, events = np.zeros((games, players)), np.zeros(games)
    bots = [tables.bot("greedy_value")] * players
    while not tables.done.all():
        actions = tables.bot_actions(bots, 1)
        going = tables.legal_bits != 0
        actions[~going] = env.SKIP
        rows, expected = judge.before(tables, actions, 5)
        assert going[rows].all(), "nothing happens at a table that is not stepped"
        tables.step(actions)
        luck = judge.luck(tables, rows, expected)
        assert not np.delete(luck, rows, 0).any()
        total += luck
        events[rows] += 1
    return total, events


@pytest.mark.parametrize(("players", "outcomes"), [(2, 1), (2, 4), (3, 2)])
def test_luck_has_mean_zero_for_a_network_that_knows_nothing(players: int, outcomes: int) -> None:
    config = settings(players)
    luck, events = played(expectations(steep_network(config), outcomes), 1500, players)
    assert events.min() > 5
    assert luck.std() > 0.2, "there is luck to take out"
    z = luck.mean(0) / luck.std(0, ddof=1) * np.sqrt(len(luck))
    assert np.abs(z).max() < 3.7


def test_what_came_compared_with_itself_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: odds that leave out high cards make luck that is not 0 on average."""
    real = env.VecEnv.odds

    def without_high_cards(self: env.VecEnv, actions: Any) -> NDArray[np.float32]:
        odds = real(self, actions).copy()
        known = odds[:, 0] < 1
        odds[known, 8:] *= 1e-3
        return odds

    monkeypatch.setattr(env.VecEnv, "odds", without_high_cards)
    config = settings()
    network = steep_network(config)
    luck, _ = played(expectations(network, 4), 400)
    one = luck[:, 0]
    assert abs(one.mean()) / one.std(ddof=1) * np.sqrt(len(one)) > 4


def test_many_outcomes_give_the_exact_mean_over_all_of_them() -> None:
    config = settings()
    network = steep_network(config)
    tables = env.make("skyjo", 32, 2, ROUND, seed=8, auto_reset=False)
    draw = np.zeros(32, np.int64)
    rows, found = expectations(network, 64, 0.5).before(tables, draw, 5)
    assert rows.tolist() == list(range(32))
    odds, exact = tables.odds(draw), np.zeros((32, 2))
    for outcome in range(1, odds.shape[1]):
        copies = env.make("skyjo", 32, 2, ROUND, auto_reset=False)
        copies.copy_from(tables, np.arange(32))
        copies.step(draw, np.full(32, outcome))
        _, values = network.values_of_observation(torch.from_numpy(copies.obs.copy()))
        exact += 0.5 * odds[:, [outcome]] * to_seats(values.detach().numpy(), copies.to_play, 2)
    np.testing.assert_allclose(found, exact, atol=0.06)
    assert np.abs(exact).max() > 0.5


def test_a_trained_network_takes_most_of_the_luck_out_the_cards_turned_over_at_the_end_included() -> None:
    """Sums of rewards of whole rounds, with and without luck; without the last cards a third of it would stay."""
    policy = load_agent("agent:skyjo-belief,simulations=0")
    assert isinstance(policy, Searcher)
    network = policy.planner.network
    assert isinstance(network, Network)
    judge = expectations(network, 8)
    tables = env.make("skyjo", 128, 2, {**ROUND, "first_starter": "random"}, seed=4, auto_reset=False)
    paid, luck, last = np.zeros(128), np.zeros(128), np.zeros(128, bool)
    while len(rows := np.flatnonzero(tables.legal_bits)):
        actions = np.full(128, env.SKIP, np.int64)
        actions[rows] = policy.act(Situation.at(tables, rows))
        events, expected = judge.before(tables, actions, 5)
        tables.step(actions)
        luck += judge.luck(tables, events, expected)[:, 0]
        paid[rows] += tables.rewards[rows, 0]
        ended = rows[tables.done[rows]]
        last[ended] = np.isin(ended, events)
    assert last.mean() > 0.9, "the end of a round turns cards over that nobody has seen"
    assert (paid - luck).var() < 0.3 * paid.var()


def test_a_network_without_native_passes_judges_the_same() -> None:
    config = settings()
    network, actions = steep_network(config), np.zeros(16, np.int64)
    tables = env.make("skyjo", 16, 2, ROUND, seed=8, auto_reset=False)
    native, plain = expectations(network, 3), Expectations(network, None, 3, 1.0)
    np.testing.assert_allclose(native.before(tables, actions, 5)[1], plain.before(tables, actions, 5)[1], atol=2e-4)
    with torch.no_grad():
        network.value.weight.mul_(0.5)
    native.refresh()
    np.testing.assert_allclose(native.before(tables, actions, 5)[1], plain.before(tables, actions, 5)[1], atol=2e-4)


def test_the_end_of_a_round_is_worth_what_the_match_table_says() -> None:
    """A copy that ends the round is worth the chance to win the match where that is what is paid."""
    config = settings()
    table = MatchTable(np.array([[5, 20], [30, 10]]), 100)
    plain, match = (expectations(steep_network(config), 2, match=paid) for paid in (None, table))
    assert np.abs(played(plain, 40)[0] - played(match, 40)[0]).max() > 1e-3


def test_games_are_the_same_with_and_without_judged_outcomes_and_again() -> None:
    plain = settings()
    config = replace(plain, selfplay=replace(plain.selfplay, judged_outcomes=3))
    one, again, none = SelfPlay(config), SelfPlay(config), SelfPlay(plain)
    for worker in (one, again, none):
        worker.load_weights(weights(config), weights(config, 1))
    judged = one.play(request(6))
    assert same(judged, again.play(request(6)))
    without = none.play(request(6))
    assert not any(e.luck.any() for e in without.episodes)
    for e in judged.episodes:
        e.check()
        assert (e.luck.any(1) == (e.outcome != 0))[:-1].mean() > 0.9, "luck belongs to decisions that chance follows"
    assert same(replace(judged, episodes=[replace(e, luck=np.zeros_like(e.luck)) for e in judged.episodes]), without)


def test_games_with_private_hands_are_refused() -> None:
    config = compose_config("preset=smoke", "game=lama", "selfplay.judged_outcomes=4")
    with pytest.raises(ValueError, match=r"judged_outcomes: expected 0 in a game with private hands.*got 4"):
        check_game(config)
