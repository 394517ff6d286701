"""muzero.search.planner: plans and analyses with torch and trees together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import env
from muzero.config import SearchConfig
from muzero.data.trajectory import pack_legal
from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from muzero.search.planner import Analysis, Plan, Planner

B = 24
SOURCES = ("learned", "exact", "uniform")
SETTINGS = [(a, b) for a in ("gumbel", "puct") for b in ("maxn", "ego")]
settings = pytest.mark.parametrize(("algorithm", "backup"), SETTINGS)


def build(variant: str = "belief", players: int = 3, latent: str = "slots", game: str = "skyjo") -> Network:
    """A new network, which a test may change."""
    torch.manual_seed(0)
    config = load_model_config("tiny", variant)
    if latent == "flat":
        config = replace(config, latent="flat", encoder="transformer")
    return Network(GameSpec.of(game, players), config).eval()


make = cache(build)  # networks that tests share and do not change


def tables(players: int = 3, steps: int = 30) -> env.VecEnv:
    made = env.make("skyjo", B, players, seed=1)
    made.random_steps(steps)
    return made


def plan(planner: Planner, t: env.VecEnv, rows: slice = slice(None), temperature: float = 1.0) -> Plan:
    return planner.plan(t.obs[rows], t.legal_bits[rows], t.phase[rows], t.decision_keys(7)[rows], temperature)


def analyse(planner: Planner, t: env.VecEnv) -> Analysis:
    return planner.analyse(t.obs, t.legal_bits, t.phase, t.decision_keys(7))


@settings
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("latent", ["flat", "slots"])
def test_plans_are_legal_and_policies_sum_to_one(algorithm: str, backup: str, variant: str, latent: str) -> None:
    t, network = tables(), make(variant, latent=latent)
    planner = Planner(network, SearchConfig(algorithm=algorithm, backup=backup, simulations=12, leaves=2), B)
    found = plan(planner, t)
    searched = t.legal.sum(1) > 1
    assert t.legal[np.arange(B), found.actions].all()
    assert found.values.shape == (B, 3 if backup == "maxn" else 1)
    assert found.policy.sum(1) == pytest.approx(np.ones(B), abs=1e-5)
    assert (found.policy[~t.legal] == 0).all()
    assert planner.clock.simulations == 12 * searched.sum()


@settings
@pytest.mark.parametrize("latent", ["flat", "slots"])
@pytest.mark.parametrize("game", env.games())
def test_plans_are_legal_in_every_game(algorithm: str, backup: str, latent: str, game: str) -> None:
    players = min(4, env.describe(game).max_players)
    network = make(players=players, latent=latent, game=game)
    t = env.make(game, B, players, seed=1)
    t.random_steps(10)
    planner = Planner(network, SearchConfig(algorithm=algorithm, backup=backup, simulations=12), B)
    found = plan(planner, t)
    assert t.legal[np.arange(B), found.actions].all()
    assert (found.policy[~t.legal] == 0).all()
    assert planner.clock.simulations == 12 * (t.legal.sum(1) > 1).sum()
    assert np.isfinite(found.values).all()


@settings
def test_same_keys_give_the_same_bytes_and_rows_are_independent(algorithm: str, backup: str) -> None:
    t, network = tables(), make()
    config = SearchConfig(algorithm=algorithm, backup=backup, simulations=16)
    first, again = plan(Planner(network, config, B), t), Planner(network, config, B)
    assert all((getattr(first, f) == getattr(plan(again, t), f)).all() for f in Plan.__dataclass_fields__)
    assert all((getattr(first, f) == getattr(plan(again, t), f)).all() for f in Plan.__dataclass_fields__)
    changed = t.obs.copy()
    changed[5] = t.obs[6]
    other = again.plan(changed, t.legal_bits, t.phase, t.decision_keys(7))
    keep = np.arange(B) != 5
    assert all((getattr(first, f)[keep] == getattr(other, f)[keep]).all() for f in Plan.__dataclass_fields__)
    keys = t.decision_keys(7)
    keys[5] += np.uint64(1)
    noisy = again.plan(t.obs, t.legal_bits, t.phase, keys)
    assert (noisy.policy[keep] == first.policy[keep]).all()


def test_fewer_positions_than_the_batch_give_the_same_plans() -> None:
    """Hidden states lie where the trees expect them, even if the batch is not full."""
    t, network = tables(), make()
    config = SearchConfig(simulations=20, leaves=2, skip_forced=False)
    whole, part = plan(Planner(network, config, B), t), plan(Planner(network, config, B), t, slice(3, 10))
    # Matrix products differ in the last bits with the size of the batch.
    assert (np.abs(whole.policy[3:10] - part.policy) < 1e-3).mean() > 0.95
    assert part.values == pytest.approx(whole.values[3:10], abs=0.05)


@pytest.mark.parametrize(("game", "players"), [("skyjo", 2), ("lama", 4), ("skipbo", 2)])
@pytest.mark.parametrize("greedy", [True, False])
def test_two_leaves_of_a_gumbel_search_find_what_one_at_a_time_finds(game: str, players: int, greedy: bool) -> None:
    """The two leaves belong to two candidates of the root, whose searches do not influence each other."""
    network = make(players=players, game=game)
    t = env.make(game, 32, players, seed=1)
    for step in range(25):
        t.step(t.sample_actions(step))
    settings = SearchConfig(simulations=40, rescale_values=False)
    one, two = (Planner(network, replace(settings, leaves=leaves), 32, greedy=greedy) for leaves in (1, 2))
    found, same = analyse(one, t), analyse(two, t)
    assert (found.visits == same.visits).all()
    assert (found.actions == same.actions).all()
    np.testing.assert_allclose(found.policy, same.policy, atol=1e-5)
    free = t.legal.sum(1) > 1  # a forced move has no second candidate
    np.testing.assert_allclose(found.values[free], same.values[free], atol=1e-5)


def test_lanes_share_the_positions() -> None:
    t, network = tables(), make()
    config = SearchConfig(simulations=20)
    one, three = Planner(network, config, B), Planner(network, replace(config, lanes=3), B)
    plain, shared, again = plan(one, t), plan(three, t), plan(three, t)
    assert (shared.policy == again.policy).all()
    # Matrix products differ in the last bits with the size of the batch.
    assert (np.abs(plain.policy - shared.policy) < 1e-3).mean() > 0.95
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
        found = planner.plan(t.obs, pack_legal(legal), t.phase, t.decision_keys(1))
        assert (found.actions[:4] == 5).all()
        assert (found.policy[:4, 5] == 1).all()
        assert planner.clock.simulations == 8 * ((legal.sum(1) > 1).sum() if skip else B)
        assert np.isfinite(found.values).all()
    only = planner.plan(t.obs[:4], pack_legal(legal[:4]), t.phase[:4], t.decision_keys(1)[:4])
    assert (only.actions == 5).all()


@settings
@pytest.mark.parametrize("lanes", [1, 2])
def test_analysis_is_complete_and_consistent_with_the_plan(algorithm: str, backup: str, lanes: int) -> None:
    t, network = tables(), make()
    config = SearchConfig(algorithm=algorithm, backup=backup, simulations=12, leaves=2, lanes=lanes, backend="native")
    planner = Planner(network, config, B)
    found, planned = analyse(planner, t), plan(planner, t)
    assert found.prior.sum(1) == pytest.approx(np.ones(B), abs=1e-5)
    assert ((found.prior > 0) == t.legal).all()
    assert found.visits.sum(1) == pytest.approx(np.full(B, 12), abs=1e-4), "forced moves are searched too"
    assert (found.visits[~t.legal] == 0).all()
    assert (np.isnan(found.q) == (found.visits == 0)).all()
    assert (found.actions == planned.actions).all()
    free = t.legal.sum(1) > 1
    assert found.policy[free].tobytes() == planned.policy[free].tobytes()
    assert found.values[free].tobytes() == planned.values[free].tobytes()
    # The root's value for the mover is the mean of the network's own value and the returns of all simulations.
    with torch.inference_mode():
        _, outputs = network.initial(torch.from_numpy(t.obs), backup)
    own = outputs[:, network.spec.num_actions].numpy()
    mean = (own + np.nansum(found.visits * found.q, 1)) / (1 + found.visits.sum(1))
    assert found.values[:, 0] == pytest.approx(mean, abs=1e-4)


def test_analysis_gives_the_prior_without_root_noise() -> None:
    t, network = tables(), make()
    noisy = Planner(network, SearchConfig(algorithm="puct", simulations=4, dirichlet_fraction=0.9), B)
    greedy = Planner(network, SearchConfig(algorithm="puct", simulations=4), B, greedy=True)
    assert (analyse(noisy, t).prior == analyse(greedy, t).prior).all()
    assert analyse(greedy, t).prior == pytest.approx(
        plan(Planner(network, SearchConfig(simulations=0), B, greedy=True), t).policy, abs=1e-6
    )


def test_position_without_a_legal_action_is_refused() -> None:
    t, planner = tables(), Planner(make(), SearchConfig(simulations=2), B)
    legal = t.legal_bits
    legal[3] = 0
    for search in (planner.plan, planner.analyse):
        with pytest.raises(ValueError, match="legal: expected an action in every row, got none in row 3"):
            search(t.obs, legal, t.phase, t.decision_keys(1))


@pytest.mark.parametrize("algorithm", ["gumbel", "puct"])
def test_no_simulations_give_the_prior(algorithm: str) -> None:
    t, network = tables(), make()
    planner = Planner(network, SearchConfig(algorithm=algorithm, simulations=0, merge=False), B, greedy=True)
    found = plan(planner, t)
    with torch.inference_mode():
        _, outputs = network.initial(torch.from_numpy(t.obs), "maxn")
    logits = np.where(t.legal, outputs[:, :16].numpy(), -np.inf)
    prior = np.exp(logits - logits.max(1, keepdims=True))
    assert found.policy == pytest.approx(prior / prior.sum(1, keepdims=True), abs=1e-5)
    assert found.values == pytest.approx(outputs[:, 16:].numpy(), abs=1e-6)
    if algorithm == "gumbel":
        assert (found.actions == logits.argmax(1)).all()


def test_prior_temperature_flattens_the_prior_except_in_evaluation() -> None:
    t, network = tables(), make()
    flat, plain = (SearchConfig(simulations=0, prior_temperature=heat) for heat in (2.0, 1.0))
    prior = plan(Planner(network, plain, B), t).policy
    roots = np.sqrt(prior)
    assert plan(Planner(network, flat, B), t).policy == pytest.approx(roots / roots.sum(1, keepdims=True), abs=1e-5)
    assert plan(Planner(network, flat, B, greedy=True), t).policy == pytest.approx(prior, abs=1e-6)


def test_greedy_planner_is_independent_of_keys() -> None:
    t, network = tables(), make()
    for algorithm in ("gumbel", "puct"):
        config = SearchConfig(algorithm=algorithm, simulations=16)
        greedy, noisy = Planner(network, config, B, greedy=True), Planner(network, config, B)
        keys = [t.decision_keys(seed) for seed in (1, 2)]
        same = [greedy.plan(t.obs, t.legal_bits, t.phase, k).actions for k in keys]
        other = [noisy.plan(t.obs, t.legal_bits, t.phase, k).actions for k in keys]
        assert (same[0] == same[1]).all()
        assert (other[0] != other[1]).any()


# ---- equivalent actions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["gumbel", "puct"])
def test_equivalent_actions_get_equal_shares_of_the_policy(algorithm: str) -> None:
    """Slots of the same class may trade places, so it cannot matter which of them a card is put on."""
    t, network = tables(), make("baseline")
    classes = t.slot_classes()[:, :12]
    config = SearchConfig(algorithm=algorithm, simulations=30)
    merged = plan(Planner(network, config, B), t)
    apart = plan(Planner(network, replace(config, merge=False), B), t)
    pairs, uneven = 0, 0.0
    for row in range(B):
        for one in range(12):
            for other in range(one):
                alike = classes[row, one] == classes[row, other] and t.legal[row, [4 + one, 4 + other]].all()
                if alike and t.legal[row].sum() > 2:
                    assert merged.policy[row, 4 + one] == merged.policy[row, 4 + other]
                    uneven = max(uneven, abs(float(apart.policy[row, 4 + one] - apart.policy[row, 4 + other])))
                    pairs += 1
    assert pairs > 20
    assert uneven > 0.05, "a search that keeps them apart tells them apart"
    for found in (merged, apart):
        assert found.policy.sum(1) == pytest.approx(np.ones(B), abs=1e-5)


# ---- chance ------------------------------------------------------------------------------------------------------


def told(config: SearchConfig, logits: dict[int, float], steps: int = 30) -> list[int]:
    """Outcomes that a search tells a network whose outcome head always says the same: logits of codes, others 0."""
    torch.manual_seed(0)
    model = replace(load_model_config("tiny", "belief"), chance="game")
    network = Network(GameSpec.of("skyjo", 2), model).eval()
    assert isinstance(network.outcome, torch.nn.Linear)
    with torch.no_grad():
        network.outcome.weight.zero_()
        network.outcome.bias.zero_()
        for code, logit in logits.items():
            network.outcome.bias[code] = logit
    asked: list[int] = []
    network.dynamics.register_forward_pre_hook(lambda _, given: asked.extend(given[3].tolist()))
    plan(Planner(network, replace(config, backend="eager"), B), tables(2, steps))
    return asked


def test_search_has_chance_nodes_if_the_network_tells_outcomes_apart() -> None:
    found = told(SearchConfig(simulations=40), {})
    assert set(range(1, 16)) <= set(found), "the outcome head says that all are equally likely"
    assert 0 in found, "afterstates come first"


def test_no_event_is_the_probability_above_which_there_is_no_chance_node() -> None:
    """Code 0 has probability 0.9 everywhere."""
    sure = {0: float(np.log(9 * 15))}
    config = SearchConfig(simulations=40)
    assert max(told(config, sure)) > 0, "by default there is always a chance node"
    assert max(told(replace(config, no_event=0.95), sure)) > 0
    assert set(told(replace(config, no_event=0.85), sure)) == {0}


def test_chance_source_says_where_probabilities_come_from() -> None:
    """The network thinks that a five is certain; the cards that nobody has seen say something else."""
    certain = {8: 30.0}
    found = {source: set(told(SearchConfig(simulations=40, chance_source=source), certain)) - {0} for source in SOURCES}
    assert found["learned"] == {8}
    assert len(found["exact"]) > 8
    assert found["uniform"] == set(range(1, 16))


def test_exact_probabilities_are_those_of_the_unseen_cards() -> None:
    """Outcomes that no unseen card has are never told, others are."""
    model = replace(load_model_config("tiny", "belief"), chance="game")
    network = Network(GameSpec.of("skyjo", 2), model).eval()
    columns = network.spec.counts
    assert columns is not None
    asked: list[int] = []
    network.dynamics.register_forward_pre_hook(lambda _, given: asked.extend(given[3].tolist()))
    planner = Planner(network, SearchConfig(simulations=40, chance_source="exact", backend="eager"), B)
    t = tables(2)
    obs = t.obs.copy()
    counts = obs[:, columns].reshape(B, -1, 15)
    counts[..., :10] = 0  # only the five highest kinds are left
    counts[..., 10:] = 3
    obs[:, columns] = counts.reshape(B, -1)
    planner.plan(obs, t.legal_bits, t.phase, t.decision_keys(7))
    assert set(asked) - {0} == {11, 12, 13, 14, 15}


def test_search_does_not_run_the_outcome_heads() -> None:
    torch.manual_seed(0)
    network = Network(GameSpec.of("skyjo", 3), replace(load_model_config("tiny", "belief"), points=50.0)).eval()
    assert network.winner is not None
    assert network.rank is not None
    assert network.points is not None
    for head in (network.winner, network.rank, network.points):
        head.register_forward_hook(lambda *_: pytest.fail("the search ran an outcome head"))
    plan(Planner(network, SearchConfig(simulations=4), B), tables())


@pytest.mark.parametrize("part", ["value", "policy", "dynamics"])
def test_nan_from_the_network_is_refused_by_name(part: str) -> None:
    network = build("baseline")
    with torch.no_grad():
        next(iter(getattr(network, part).parameters())).fill_(float("nan"))
    with pytest.raises(ValueError, match=r"game 0: the network's (value|policy logit|reward) .* is not a number"):
        plan(Planner(network, SearchConfig(simulations=4), B), tables())


def test_search_in_bfloat16_is_legal_and_similar() -> None:
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
        ({"simulations": -1}, "search.simulations: expected 0 to 1048575, got -1"),
        ({"leaves": 0}, "search.leaves: expected 1 to 4096, got 0"),
        ({"prior_temperature": 0.0}, "search.prior_temperature: expected more than 0, got 0.0"),
        ({"discount": 2.0}, "search.discount: expected more than 0, at most 1, got 2.0"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Planner(make(), SearchConfig(**change), B)  # type: ignore[arg-type]


@pytest.mark.slow
def test_compiled_search_in_bfloat16_is_close() -> None:
    t, network = tables(), make()
    config = SearchConfig(simulations=16)
    exact = plan(Planner(network, config, B), t)
    rough = plan(Planner(network, replace(config, backend="compiled_dynamic", bf16=True), B), t)
    assert rough.values == pytest.approx(exact.values, abs=0.05)
    assert np.abs(rough.values - exact.values).mean() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compiled", "compiled_dynamic"])
@pytest.mark.parametrize("lanes", [1, 2])
def test_compiled_search_differs_by_rounding_only(lanes: int, kind: str) -> None:
    t, network = tables(), make()
    config = SearchConfig(simulations=8, lanes=lanes)
    plain, compiled = Planner(network, config, B), Planner(network, replace(config, backend=kind), B)
    for rows in (slice(None), slice(0, B - 5), slice(0, 5), slice(0, 1)):  # the last are too few for one size
        expected, found = plan(plain, t, rows), plan(compiled, t, rows)
        assert found.values == pytest.approx(expected.values, abs=1e-3)
        assert (found.actions == expected.actions).mean() > 0.9
    again = Planner(network, replace(config, backend=kind), B)
    assert plan(again, t).policy.tobytes() == plan(compiled, t).policy.tobytes()
