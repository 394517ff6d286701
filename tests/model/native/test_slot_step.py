"""muzero.model.native.slot_step: the native step of slots networks computes what the torch modules do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from mcts import Requests
from muzero.config import SearchConfig
from muzero.model.native import _native
from muzero.model.native.slot_step import SlotStep
from muzero.model.network import ABLATIONS, Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.backend import resolve_backend
from muzero.search.planner import Plan, Planner
from tests.model.helpers import variants_and_chance

KERNELS = _native.kernels()
B = 40
TABLES = [("skyjo", 2), ("skyjo", 5), ("lama", 3), ("skipbo", 2)]
Floats = NDArray[np.float32]


def make(
    variant: str = "belief", game: str = "skyjo", players: int = 2, shaken: float = 0.1, **changes: object
) -> Network:
    """A network whose parameters have all left their initial values: zeros and ones would hide mistakes."""
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), **changes)  # type: ignore[arg-type]
    network = Network(GameSpec.of(game, players), config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += shaken * torch.randn_like(parameter)
    return network


shared = cache(make)  # networks that tests share and do not change


def random_requests(network: Network, count: int, seed: int = 0) -> tuple[Floats, Requests]:
    """Latents of two nodes of B games, and random requests for them."""
    rng, spec = np.random.default_rng(seed), network.spec
    latents = rng.standard_normal((6, B, network.latent_dim)).astype(np.float32)
    ends = (2 * B, spec.num_actions, spec.num_players, spec.num_players, network.num_outcomes)
    return latents, Requests(*(rng.integers(0, end, count) for end in ends))


def native_step(step: SlotStep, latents: Floats, requests: Requests, games: int, backup: str) -> tuple[Floats, Floats]:
    """Next latents and outputs by the native step, one row per request."""
    spec, count, latents = step.network.spec, len(requests.parent), latents.copy()
    values = spec.num_players if backup == "maxn" else 1
    outcomes = step.network.num_outcomes if step.network.num_outcomes > 1 else 0
    outputs = np.full((count, spec.num_actions + outcomes + 2 * values), np.nan, np.float32)
    step.advance(latents, requests, 2, games, backup, outputs)
    node, game = 2 + np.arange(count) // games, np.arange(count) % games
    return latents[node, game], outputs


@torch.inference_mode()
def torch_step(network: Network, latents: Floats, requests: Requests, backup: str) -> tuple[Floats, Floats]:
    """Next latents and outputs by the torch modules."""
    rows = torch.from_numpy(latents.reshape(-1, latents.shape[2])[requests.parent])
    asked = requests.action, requests.shift, requests.to_play, requests.outcome
    latent, outputs = network.recurrent(rows, *(torch.from_numpy(column) for column in asked), backup)
    return latent.numpy(), outputs.numpy()


@variants_and_chance
@pytest.mark.parametrize(("game", "players"), TABLES)
def test_latents_and_outputs_equal_those_of_torch(game: str, players: int, variant: str, chance: str) -> None:
    network = make(variant, game, players, chance=chance)
    latents, requests = random_requests(network, 3 * B)  # more than a tile, and a rest
    assert len(set(requests.outcome)) == (network.spec.num_outcomes if chance == "game" else 1)
    for backup in ("maxn", "ego"):
        true_latent, true_outputs = torch_step(network, latents, requests, backup)
        for kernel in KERNELS:
            latent, outputs = native_step(SlotStep(network, kernel=kernel), latents, requests, B, backup)
            if kernel == "bf16":  # eight bits of every number
                assert np.abs(latent - true_latent).mean() < 0.01
                actions, numbers = network.spec.num_actions, 2 * (players if backup == "maxn" else 1)
                parts = [slice(0, actions), slice(actions, -numbers), slice(-numbers, None)]
                for part in parts if chance == "game" else parts[::2]:  # logits, outcome logits, values and rewards
                    spread = true_outputs[:, part].std(0).mean()
                    assert np.abs(outputs - true_outputs)[:, part].mean() < 0.05 * spread
            else:
                np.testing.assert_allclose(latent, true_latent, rtol=0, atol=2e-5)
                np.testing.assert_allclose(outputs, true_outputs, rtol=0, atol=2e-4)


@variants_and_chance
@pytest.mark.parametrize(("game", "players"), TABLES)
def test_roots_equal_those_of_torch(game: str, players: int, variant: str, chance: str) -> None:
    network = make(variant, game, players, chance=chance)
    tables = env.make(game, 70, players, seed=3)  # more than a tile, and a rest
    tables.random_steps(25)
    for backup in ("maxn", "ego"):
        with torch.inference_mode():
            true_latent, true_outputs = network.initial(torch.from_numpy(tables.obs), backup)
        for kernel in KERNELS:
            found = SlotStep(network, kernel=kernel).initial(tables.obs, backup)
            assert found is not None
            np.testing.assert_allclose(found[0], true_latent.numpy(), rtol=0, atol=2e-5)
            assert found[1].shape == true_outputs.shape
            if kernel != "bf16":
                np.testing.assert_allclose(found[1], true_outputs.numpy(), rtol=0, atol=2e-4)


def test_root_is_independent_of_the_other_rows() -> None:
    step, tables = SlotStep(shared()), env.make("skyjo", 70, 2, seed=3)
    found, alone = step.initial(tables.obs, "maxn"), step.initial(tables.obs[60:61], "maxn")
    assert found is not None
    assert alone is not None
    np.testing.assert_array_equal(found[0][60], alone[0][0])
    np.testing.assert_array_equal(found[1][60], alone[1][0])


def test_roots_of_other_encoders_are_left_to_torch() -> None:
    step = SlotStep(make(encoder="transformer"))
    assert step.initial(env.make("skyjo", 2, 2).obs, "maxn") is None


@pytest.mark.parametrize("game", env.games())
def test_outputs_equal_those_of_torch_in_every_ablation(game: str) -> None:
    network = make(game=game, players=most_players(game))
    step = SlotStep(network)
    latents, requests = random_requests(network, B)
    for ablation in ABLATIONS:
        network.set_ablation(ablation)
        step.refresh()
        for backup in ("maxn", "ego"):
            found = native_step(step, latents, requests, B, backup)[1]
            true = torch_step(network, latents, requests, backup)[1]
            np.testing.assert_allclose(found, true, rtol=0, atol=2e-4, err_msg=ablation)


@pytest.mark.parametrize("ego_boards", [True, False])
def test_outputs_equal_those_of_torch_whichever_board_comes_first(ego_boards: bool) -> None:
    network = make("belief", "lama", 3, ego_boards=ego_boards)
    latents, requests = random_requests(network, B)
    for backup in ("maxn", "ego"):
        found = native_step(SlotStep(network), latents, requests, B, backup)[1]
        np.testing.assert_allclose(found, torch_step(network, latents, requests, backup)[1], rtol=0, atol=2e-4)


@pytest.mark.parametrize("changes", [{"slot_dim": 32, "hidden": 48}, {"slot_hidden": 48, "value_bins": 5}])
@pytest.mark.parametrize("kernel", KERNELS)
def test_outputs_equal_those_of_torch_in_other_sizes(kernel: str, changes: dict[str, int]) -> None:
    network = make(players=3, **changes)
    latents, requests = random_requests(network, B)
    latent, outputs = native_step(SlotStep(network, kernel=kernel), latents, requests, B, "maxn")
    true_latent, true_outputs = torch_step(network, latents, requests, "maxn")
    if kernel == "bf16":
        assert np.abs(latent - true_latent).mean() < 0.01
        assert np.abs(outputs - true_outputs).mean() < 0.05 * true_outputs.std(0).mean()
    else:
        np.testing.assert_allclose(latent, true_latent, rtol=0, atol=2e-5)
        np.testing.assert_allclose(outputs, true_outputs, rtol=0, atol=2e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_row_is_independent_of_the_other_rows(kernel: str) -> None:
    network = shared()
    step = SlotStep(network, kernel=kernel)
    latents, requests = random_requests(network, 3 * B)
    latent, outputs = native_step(step, latents, requests, B, "maxn")
    for rows in (slice(0, 1), slice(7, 10), slice(31, 71), slice(100, 119)):
        columns = (requests.parent, requests.action, requests.shift, requests.to_play, requests.outcome)
        some = Requests(*(column[rows].copy() for column in columns))
        one, other = native_step(step, latents, some, min(B, len(some.parent)), "maxn")
        assert one.tobytes() == latent[rows].tobytes()
        assert other.tobytes() == outputs[rows].tobytes()


def test_refresh_loads_replaced_parameters() -> None:
    network = make()
    step = SlotStep(network)
    latents, requests = random_requests(network, B)
    network.load_state_dict({k: 0.9 * v for k, v in network.state_dict().items()}, assign=True)
    step.refresh()
    found = native_step(step, latents, requests, B, "maxn")[1]
    np.testing.assert_allclose(found, torch_step(network, latents, requests, "maxn")[1], rtol=0, atol=2e-4)


def test_refresh_loads_changed_weights() -> None:
    network, other = make(), make("heads_only")
    step = SlotStep(network)
    latents, requests = random_requests(network, B)
    before = native_step(step, latents, requests, B, "maxn")[1]
    common = {k: v for k, v in other.state_dict().items() if k.startswith(("dynamics", "trunk"))}
    network.load_state_dict({**network.state_dict(), **{k: v * 1.1 for k, v in common.items()}})
    assert native_step(step, latents, requests, B, "maxn")[1].tobytes() == before.tobytes(), (
        "weights change with refresh only"
    )
    step.refresh()
    found = native_step(step, latents, requests, B, "maxn")[1]
    assert np.abs(found - before).max() > 0.01
    np.testing.assert_allclose(found, torch_step(network, latents, requests, "maxn")[1], rtol=0, atol=2e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["dynamics.slot_in.bias", "dynamics.hidden.bias", "trunk.mix.weight", "value.bias"])
def test_nan_weights_give_nan_outputs(name: str, kernel: str) -> None:
    network = make()
    with torch.no_grad():
        network.get_parameter(name).view(-1)[0] = np.nan
    latents, requests = random_requests(network, B)
    assert np.isnan(native_step(SlotStep(network, kernel=kernel), latents, requests, B, "maxn")[1]).any()


def test_unsupported_networks_are_refused_by_name() -> None:
    flat = make(latent="flat", encoder="transformer")
    assert SlotStep.unsupported_reason(flat) == "expected model.latent=slots, got flat"
    assert SlotStep.unsupported_reason(make(hidden=72)) == "expected a multiple of 16 for model.hidden, got 72"
    assert SlotStep.unsupported_reason(make()) is None
    with pytest.raises(ValueError, match=r"search.backend=native: expected model.latent=slots, got flat"):
        Planner(flat, SearchConfig(backend="native"), B)
    assert Planner(make(), SearchConfig(backend="auto"), B).config.backend == "native"
    with pytest.raises(ValueError, match=r"kernel: expected one of .*base.*, got 'abacus'"):
        SlotStep(make(), kernel="abacus")


def test_bfloat16_is_refused_where_the_processor_lacks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another precision must not be substituted: match results are stored by precision."""
    monkeypatch.setattr(_native, "kernels", lambda: ["base"])
    network, config = make(), SearchConfig(bf16=True, backend="native")
    with pytest.raises(ValueError, match=r"expected search.bf16=false on a CPU that does not multiply in bfloat16"):
        Planner(network, config, B)
    assert resolve_backend(network, replace(config, backend="auto")) == "compiled"
    assert resolve_backend(network, replace(config, bf16=False, backend="auto")) == "native"


@pytest.mark.parametrize(
    ("column", "value"),
    [("parent", 2 * B), ("parent", -1), ("action", 99), ("shift", 2), ("to_play", -1), ("outcome", 1), ("outcome", -1)],
)
def test_requests_out_of_range_are_refused(column: str, value: int) -> None:
    network = shared()
    latents, requests = random_requests(network, B)
    getattr(requests, column)[5] = value
    with pytest.raises(IndexError, match="row 5: no such parent, action, shift, outcome or player"):
        native_step(SlotStep(network), latents, requests, B, "maxn")


def test_arrays_of_wrong_type_or_shape_are_refused() -> None:
    network = shared()
    step = SlotStep(network)
    latents, requests = random_requests(network, B)
    outputs = np.zeros((B, 20), np.float32)
    with pytest.raises(ValueError, match="latents: expected a contiguous float32 array"):
        step.advance(latents.astype(np.float64), requests, 2, B, "maxn", outputs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="outputs: expected a contiguous float32 array of shape"):
        step.advance(latents, requests, 2, B, "maxn", outputs[:, :19].copy())
    with pytest.raises(ValueError, match="expected room for 40 rows of 40 games from node 6 on, got 6 nodes of 40"):
        step.advance(latents, requests, 6, B, "maxn", outputs)
    with pytest.raises(ValueError, match="expected room for 40 rows of 0 games"):
        step.advance(latents, requests, 2, 0, "maxn", outputs)


def most_players(game: str) -> int:
    """Three players, or as many as the game has places for."""
    return min(3, env.describe(game).max_players)


def tables(game: str = "skyjo", players: int = 3) -> env.VecEnv:
    made = env.make(game, B, players, seed=1)
    made.random_steps(30)
    return made


def plan(planner: Planner, t: env.VecEnv, rows: slice = slice(None)) -> Plan:
    return planner.plan(t.obs[rows], t.legal_bits[rows], t.phase[rows], t.decision_keys(7)[rows])


@pytest.mark.parametrize(("lanes", "backup"), [(1, "maxn"), (2, "ego")])
@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("chance", ["none", "game"])
def test_search_equals_the_one_with_torch(game: str, lanes: int, backup: str, chance: str) -> None:
    players = most_players(game)
    t, network = tables(game, players), shared(game=game, players=players, chance=chance)
    config = SearchConfig(simulations=12, lanes=lanes, leaves=2, backup=backup)
    plain, native = (Planner(network, replace(config, backend=kind), B) for kind in ("eager", "native"))
    for rows in (slice(None), slice(0, 5), slice(0, 1)):
        true, found = plan(plain, t, rows), plan(native, t, rows)
        assert found.values == pytest.approx(true.values, abs=1e-3)
        assert (found.actions == true.actions).mean() > 0.9
    assert plan(native, t).policy.tobytes() == plan(native, t).policy.tobytes()


def test_search_in_bfloat16_is_close() -> None:
    t, network = tables(), make(players=3, shaken=0.0)
    config = SearchConfig(simulations=16, backend="native")
    if "bf16" not in KERNELS:
        pytest.skip("this CPU does not multiply in bfloat16")
    exact, rough = (plan(Planner(network, replace(config, bf16=b), B), t) for b in (False, True))
    assert rough.values.tobytes() != exact.values.tobytes()
    assert rough.values == pytest.approx(exact.values, abs=0.05)
    assert np.abs(rough.values - exact.values).mean() < 0.01


def test_planner_uses_changed_weights() -> None:
    t, network = tables(), make(players=3)
    planner = Planner(network, SearchConfig(simulations=8, backend="native"), B)
    before = plan(planner, t)
    network.load_state_dict({k: v * 0.9 if v.is_floating_point() else v for k, v in network.state_dict().items()})
    after = plan(planner, t)
    assert after.values.tobytes() != before.values.tobytes()
    fresh = Planner(network, SearchConfig(simulations=8, backend="native"), B)
    assert after.values.tobytes() == plan(fresh, t).values.tobytes()
