"""muzero.search.planner: torch and trees together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import env
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from muzero.search.planner import Plan, Planner

B = 24
SETTINGS = [(a, b) for a in ("gumbel", "puct") for b in ("maxn", "ego")]
settings = pytest.mark.parametrize(("algorithm", "backup"), SETTINGS)


def make(variant: str = "belief", players: int = 3, latent: str = "slots") -> Network:
    torch.manual_seed(0)
    config = load_model_config("tiny", variant)
    if latent == "flat":
        config = replace(config, latent="flat", encoder="transformer")
    return Network(GameSpec.of("skyjo", players), config).eval()


def tables(players: int = 3, steps: int = 30) -> env.VecEnv:
    made = env.make("skyjo", B, players, seed=1)
    made.random_steps(steps)
    return made


def plan(planner: Planner, t: env.VecEnv, rows: slice = slice(None), temperature: float = 1.0) -> Plan:
    return planner.plan(t.obs[rows], t.legal[rows], t.phase[rows], t.decision_keys(7)[rows], temperature)


@settings
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("latent", ["flat", "slots"])
def test_plans_are_legal_and_add_up(algorithm: str, backup: str, variant: str, latent: str) -> None:
    t, network = tables(), make(variant, latent=latent)
    planner = Planner(network, SearchConfig(algorithm=algorithm, backup=backup, simulations=12, leaves=2), B)
    found = plan(planner, t)
    searched = t.legal.sum(1) > 1
    assert t.legal[np.arange(B), found.actions].all()
    assert found.values.shape == (B, 3 if backup == "maxn" else 1)
    assert found.policy.sum(1) == pytest.approx(np.ones(B), abs=1e-5)
    assert (found.policy[~t.legal] == 0).all()
    assert (found.visits.sum(1) == np.where(searched, 12, 0)).all()
    assert planner.clock.simulations == 12 * searched.sum()


@settings
@pytest.mark.parametrize("latent", ["flat", "slots"])
@pytest.mark.parametrize("game", env.games())
def test_every_game_can_be_searched(algorithm: str, backup: str, latent: str, game: str) -> None:
    config = load_model_config("tiny", "belief")
    if latent == "flat":
        config = replace(config, latent="flat", encoder="transformer")
    torch.manual_seed(0)
    players = min(4, env.describe(game).max_players)
    network = Network(GameSpec.of(game, players), config).eval()
    t = env.make(game, B, players, seed=1)
    t.random_steps(10)
    found = plan(Planner(network, SearchConfig(algorithm=algorithm, backup=backup, simulations=12), B), t)
    assert t.legal[np.arange(B), found.actions].all()
    assert (found.policy[~t.legal] == 0).all()
    assert (found.visits.sum(1) == np.where(t.legal.sum(1) > 1, 12, 0)).all()
    assert np.isfinite(found.values).all()


@settings
def test_same_seed_same_bytes_and_no_influence_between_rows(algorithm: str, backup: str) -> None:
    t, network = tables(), make()
    config = SearchConfig(algorithm=algorithm, backup=backup, simulations=16)
    first, again = plan(Planner(network, config, B), t), Planner(network, config, B)
    assert all((getattr(first, f) == getattr(plan(again, t), f)).all() for f in Plan.__dataclass_fields__)
    assert all((getattr(first, f) == getattr(plan(again, t), f)).all() for f in Plan.__dataclass_fields__)
    changed = t.obs.copy()
    changed[5] = t.obs[6]
    other = again.plan(changed, t.legal, t.phase, t.decision_keys(7))
    keep = np.arange(B) != 5
    assert all((getattr(first, f)[keep] == getattr(other, f)[keep]).all() for f in Plan.__dataclass_fields__)
    keys = t.decision_keys(7)
    keys[5] += np.uint64(1)
    noisy = again.plan(t.obs, t.legal, t.phase, keys)
    assert (noisy.policy[keep] == first.policy[keep]).all()


def test_fewer_games_than_the_batch() -> None:
    """Hidden states lie where the trees say also when rows are left out."""
    t, network = tables(), make()
    config = SearchConfig(simulations=20, leaves=2, skip_forced=False)
    whole, part = plan(Planner(network, config, B), t), plan(Planner(network, config, B), t, slice(3, 10))
    assert (whole.visits[3:10] == part.visits).mean() > 0.95  # matrix products differ in the last bits with the batch
    assert part.values == pytest.approx(whole.values[3:10], abs=0.05)


@pytest.mark.parametrize(("game", "players"), [("skyjo", 2), ("lama", 4), ("skipbo", 2)])
@pytest.mark.parametrize("greedy", [True, False])
def test_two_leaves_of_a_gumbel_search_are_those_of_one_at_a_time(game: str, players: int, greedy: bool) -> None:
    """They are of two candidates of the root, which know nothing of each other."""
    torch.manual_seed(0)
    network = Network(GameSpec.of(game, players), load_model_config("tiny", "belief")).eval()
    t = env.make(game, 32, players, seed=1)
    for step in range(25):
        t.step(t.sample_actions(step))
    settings = SearchConfig(simulations=40, rescale_values=False)
    one, two = (Planner(network, replace(settings, leaves=leaves), 32, greedy=greedy) for leaves in (1, 2))
    found, same = plan(one, t), plan(two, t)
    assert (found.visits == same.visits).all()
    assert (found.actions == same.actions).all()
    np.testing.assert_allclose(found.policy, same.policy, atol=1e-5)
    np.testing.assert_allclose(found.values, same.values, atol=1e-5)


def test_lanes_share_the_games() -> None:
    t, network = tables(), make()
    config = SearchConfig(simulations=20)
    one, three = Planner(network, config, B), Planner(network, replace(config, lanes=3), B)
    plain, shared, again = plan(one, t), plan(three, t), plan(three, t)
    assert (shared.policy == again.policy).all()
    assert (plain.visits == shared.visits).mean() > 0.95  # matrix products differ in the last bits with the batch
    assert shared.values == pytest.approx(plain.values, abs=0.05)
    assert [lane.trees.batch for lane in three.lanes] == [8, 8, 8]
    assert (plan(three, t, slice(0, 2)).actions == shared.actions[:2]).all()


def test_forced_moves_are_not_searched() -> None:
    t = tables()
    legal = t.legal.copy()
    legal[:4] = False
    legal[:4, 5] = True
    network = make()
    for skip in (True, False):
        planner = Planner(network, SearchConfig(simulations=8, skip_forced=skip), B)
        found = planner.plan(t.obs, legal, t.phase, t.decision_keys(1))
        assert (found.actions[:4] == 5).all()
        assert (found.policy[:4, 5] == 1).all()
        assert (found.visits[:4].sum(1) == (0 if skip else 8)).all()
        assert planner.clock.simulations == 8 * ((legal.sum(1) > 1).sum() if skip else B)
        assert np.isfinite(found.values).all()
    only = planner.plan(t.obs[:4], legal[:4], t.phase[:4], t.decision_keys(1)[:4])
    assert (only.actions == 5).all()


@pytest.mark.parametrize("algorithm", ["gumbel", "puct"])
def test_no_simulations_gives_the_prior(algorithm: str) -> None:
    t, network = tables(), make()
    planner = Planner(network, SearchConfig(algorithm=algorithm, simulations=0), B, greedy=True)
    found = plan(planner, t)
    with torch.inference_mode():
        _, outputs = network.initial(torch.from_numpy(t.obs), "maxn")
    logits = np.where(t.legal, outputs[:, :16].numpy(), -np.inf)
    prior = np.exp(logits - logits.max(1, keepdims=True))
    assert found.policy == pytest.approx(prior / prior.sum(1, keepdims=True), abs=1e-5)
    assert found.values == pytest.approx(outputs[:, 16:].numpy(), abs=1e-6)
    if algorithm == "gumbel":
        assert (found.actions == logits.argmax(1)).all()


def test_a_search_may_start_from_a_flatter_policy() -> None:
    t, network = tables(), make()
    flat, plain = (SearchConfig(simulations=0, prior_temperature=heat) for heat in (2.0, 1.0))
    prior = plan(Planner(network, plain, B), t).policy
    roots = np.sqrt(prior)
    assert plan(Planner(network, flat, B), t).policy == pytest.approx(roots / roots.sum(1, keepdims=True), abs=1e-5)
    assert plan(Planner(network, flat, B, greedy=True), t).policy == pytest.approx(prior, abs=1e-6)


def test_greedy_uses_no_noise() -> None:
    t, network = tables(), make()
    for algorithm in ("gumbel", "puct"):
        config = SearchConfig(algorithm=algorithm, simulations=16)
        greedy, noisy = Planner(network, config, B, greedy=True), Planner(network, config, B)
        keys = [t.decision_keys(seed) for seed in (1, 2)]
        same = [greedy.plan(t.obs, t.legal, t.phase, k).actions for k in keys]
        other = [noisy.plan(t.obs, t.legal, t.phase, k).actions for k in keys]
        assert (same[0] == same[1]).all()
        assert (other[0] != other[1]).any()


def test_heads_that_search_does_not_need_are_left_out() -> None:
    network = make("belief")
    assert network.winner is not None
    assert network.rank is not None
    for head in (network.winner, network.rank):
        head.register_forward_hook(lambda *_: pytest.fail("the search ran an outcome head"))
    plan(Planner(network, SearchConfig(simulations=4), B), tables())


@pytest.mark.parametrize("part", ["value", "policy", "dynamics"])
def test_not_a_number_from_the_network_is_an_error_that_says_so(part: str) -> None:
    network = make("baseline")
    with torch.no_grad():
        next(iter(getattr(network, part).parameters())).fill_(float("nan"))
    with pytest.raises(ValueError, match=r"game 0: the network's (value|policy logit|reward) .* is not a number"):
        plan(Planner(network, SearchConfig(simulations=4), B), tables())


def test_bfloat16_searches_too() -> None:
    t, network = tables(), make()
    exact, rough = (plan(Planner(network, SearchConfig(simulations=16, bf16=b), B), t) for b in (False, True))
    assert t.legal[np.arange(B), rough.actions].all()
    assert (exact.actions == rough.actions).mean() > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "magic"}, "search.algorithm: expected gumbel or puct"),
        ({"backup": "min"}, "search.backup: expected maxn or ego"),
        ({"unvisited": "high"}, "search.unvisited: expected neutral or lowest"),
        ({"simulations": -1}, "search.simulations: expected 0 or more, got -1"),
        ({"leaves": 0}, "search.leaves: expected 1 or more, got 0"),
        ({"prior_temperature": 0.0}, "search.prior_temperature: expected more than 0, got 0.0"),
        ({"discount": 2.0}, "search.discount: expected more than 0, at most 1, got 2.0"),
    ],
)
def test_bad_settings_are_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Planner(make(), SearchConfig(**change), B)  # type: ignore[arg-type]


@pytest.mark.slow
def test_bfloat16_compiled_is_as_close() -> None:
    t, network = tables(), make()
    config = SearchConfig(simulations=16)
    exact = plan(Planner(network, config, B), t)
    rough = plan(Planner(network, replace(config, backend="compiled_dynamic", bf16=True), B), t)
    assert rough.values == pytest.approx(exact.values, abs=0.05)
    assert np.abs(rough.values - exact.values).mean() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compiled", "compiled_dynamic"])
@pytest.mark.parametrize("workers", [1, 2])
def test_compiling_changes_nothing_but_rounding(workers: int, kind: str) -> None:
    t, network = tables(), make()
    config = SearchConfig(simulations=8, lanes=workers)
    plain, compiled = Planner(network, config, B), Planner(network, replace(config, backend=kind), B)
    for rows in (slice(None), slice(0, B - 5), slice(0, 5), slice(0, 1)):  # the last are too few for one size
        expected, found = plan(plain, t, rows), plan(compiled, t, rows)
        assert found.values == pytest.approx(expected.values, abs=1e-3)
        assert (found.actions == expected.actions).mean() > 0.9
    again = Planner(network, replace(config, backend=kind), B)
    assert plan(again, t).policy.tobytes() == plan(compiled, t).policy.tobytes()
