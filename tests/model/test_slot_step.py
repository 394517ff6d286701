"""muzero.model.native.slot_step: the native step of slots networks does what the torch modules do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from mcts import Requests
from muzero.config import SearchConfig
from muzero.model.native import _native
from muzero.model.native.slot_step import SlotStep, unsupported_reason
from muzero.model.network import ABLATIONS, Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from muzero.search.planner import Plan, Planner, how_to_run

KERNELS = _native.kernels()
B = 40
TABLES = [("skyjo", 2), ("skyjo", 5), ("lama", 3), ("skipbo", 2)]
Floats = NDArray[np.float32]


def make(
    variant: str = "belief", game: str = "skyjo", players: int = 2, shaken: float = 0.1, **changes: object
) -> Network:
    """With every parameter away from where it starts: zeros and ones would hide mistakes."""
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), **changes)  # type: ignore[arg-type]
    network = Network(GameSpec.of(game, players), config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += shaken * torch.randn_like(parameter)
    return network


def questions(network: Network, count: int, seed: int = 0) -> tuple[Floats, Requests]:
    """Two nodes of B games, and what to imagine of them."""
    rng, spec = np.random.default_rng(seed), network.spec
    latents = rng.standard_normal((6, B, network.latent_dim)).astype(np.float32)
    ends = (2 * B, spec.num_actions, spec.num_players, spec.num_players)
    return latents, Requests(*(rng.integers(0, end, count) for end in ends))


def answers(step: SlotStep, latents: Floats, asked: Requests, games: int, backup: str) -> tuple[Floats, Floats]:
    """Next latents and outputs, one row per question."""
    spec, count, latents = step.network.spec, len(asked.parent), latents.copy()
    values = spec.num_players if backup == "maxn" else 1
    outputs = np.full((count, spec.num_actions + 2 * values), np.nan, np.float32)
    step.advance(latents, asked, 2, games, backup, outputs)
    node, game = 2 + np.arange(count) // games, np.arange(count) % games
    return latents[node, game], outputs


@torch.inference_mode()
def expected(network: Network, latents: Floats, asked: Requests, backup: str) -> tuple[Floats, Floats]:
    rows = torch.from_numpy(latents.reshape(-1, latents.shape[2])[asked.parent])
    asked_ = [torch.from_numpy(column) for column in (asked.action, asked.shift, asked.to_play)]
    latent, outputs = network.recurrent(rows, *asked_, backup)
    return latent.numpy(), outputs.numpy()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("backup", ["maxn", "ego"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("game", "players"), TABLES)
def test_as_torch_does_it(game: str, players: int, variant: str, backup: str, kernel: str) -> None:
    network = make(variant, game, players)
    latents, asked = questions(network, 3 * B)  # more than a tile, and a rest
    latent, outputs = answers(SlotStep(network, kernel), latents, asked, B, backup)
    true_latent, true_outputs = expected(network, latents, asked, backup)
    if kernel == "bf16":  # eight bits of every number
        assert np.abs(latent - true_latent).mean() < 0.01
        actions = network.spec.num_actions
        for part in (slice(0, actions), slice(actions, None)):  # logits, values and rewards
            spread = true_outputs[:, part].std(0).mean()
            assert np.abs(outputs - true_outputs)[:, part].mean() < 0.05 * spread
    else:
        assert latent == pytest.approx(true_latent, abs=2e-5)
        assert outputs == pytest.approx(true_outputs, rel=1e-5, abs=2e-4)


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("game", env.games())
def test_ablations(game: str, ablation: str) -> None:
    network = make(game=game, players=min(3, env.describe(game).max_players))
    step = SlotStep(network)
    network.set_ablation(ablation)
    step.refresh()
    latents, asked = questions(network, B)
    for backup in ("maxn", "ego"):
        found, true = answers(step, latents, asked, B, backup)[1], expected(network, latents, asked, backup)[1]
        assert found == pytest.approx(true, rel=1e-5, abs=2e-4)


@pytest.mark.parametrize("changes", [{"slot_dim": 32, "hidden": 48}, {"slot_hidden": 48, "value_bins": 5}])
@pytest.mark.parametrize("kernel", KERNELS)
def test_other_sizes(kernel: str, changes: dict[str, int]) -> None:
    network = make(players=3, **changes)
    latents, asked = questions(network, B)
    latent, outputs = answers(SlotStep(network, kernel), latents, asked, B, "maxn")
    true_latent, true_outputs = expected(network, latents, asked, "maxn")
    if kernel == "bf16":
        assert np.abs(latent - true_latent).mean() < 0.01
        assert np.abs(outputs - true_outputs).mean() < 0.05 * true_outputs.std(0).mean()
    else:
        assert latent == pytest.approx(true_latent, abs=2e-5)
        assert outputs == pytest.approx(true_outputs, rel=1e-5, abs=2e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_does_not_depend_on_the_others(kernel: str) -> None:
    network = make()
    step = SlotStep(network, kernel)
    latents, asked = questions(network, 3 * B)
    latent, outputs = answers(step, latents, asked, B, "maxn")
    for rows in (slice(0, 1), slice(7, 10), slice(31, 71), slice(100, 119)):
        columns = (asked.parent, asked.action, asked.shift, asked.to_play)
        some = Requests(*(column[rows].copy() for column in columns))
        one, other = answers(step, latents, some, min(B, len(some.parent)), "maxn")
        assert one.tobytes() == latent[rows].tobytes()
        assert other.tobytes() == outputs[rows].tobytes()


def test_replaced_parameters_are_taken_over() -> None:
    network = make()
    step = SlotStep(network)
    latents, asked = questions(network, B)
    network.load_state_dict({k: 0.9 * v for k, v in network.state_dict().items()}, assign=True)
    step.refresh()
    found = answers(step, latents, asked, B, "maxn")[1]
    assert found == pytest.approx(expected(network, latents, asked, "maxn")[1], rel=1e-5, abs=2e-4)


def test_new_weights_are_taken_over() -> None:
    network, other = make(), make("heads_only")
    step = SlotStep(network)
    latents, asked = questions(network, B)
    before = answers(step, latents, asked, B, "maxn")[1]
    common = {k: v for k, v in other.state_dict().items() if k.startswith(("dynamics", "trunk"))}
    network.load_state_dict({**network.state_dict(), **{k: v * 1.1 for k, v in common.items()}})
    assert answers(step, latents, asked, B, "maxn")[1].tobytes() == before.tobytes(), "not before it is told"
    step.refresh()
    found = answers(step, latents, asked, B, "maxn")[1]
    assert np.abs(found - before).max() > 0.01
    assert found == pytest.approx(expected(network, latents, asked, "maxn")[1], rel=1e-5, abs=2e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["dynamics.slot_in.bias", "dynamics.hidden.bias", "trunk.mix.weight", "value.bias"])
def test_what_is_not_a_number_is_not_hidden(name: str, kernel: str) -> None:
    network = make()
    with torch.no_grad():
        network.get_parameter(name).view(-1)[0] = np.nan
    latents, asked = questions(network, B)
    assert np.isnan(answers(SlotStep(network, kernel), latents, asked, B, "maxn")[1]).any()


def test_what_it_cannot_do_is_refused_by_name() -> None:
    flat = make(latent="flat", encoder="transformer")
    assert unsupported_reason(flat) == "expected model.latent=slots, got flat"
    assert unsupported_reason(make(hidden=72)) == "expected a multiple of 16 for model.hidden, got 72"
    assert unsupported_reason(make()) is None
    with pytest.raises(ValueError, match=r"search.backend=native: expected model.latent=slots, got flat"):
        Planner(flat, SearchConfig(backend="native"), B)
    assert Planner(make(), SearchConfig(backend="auto"), B).config.backend == "native"
    with pytest.raises(ValueError, match=r"kernel: expected one of .*base.*, got 'abacus'"):
        SlotStep(make(), "abacus")


def test_bfloat16_is_what_was_asked_for_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU without it must not play as if it had it: results are kept by precision."""
    monkeypatch.setattr(_native, "kernels", lambda: ["base"])
    network, config = make(), SearchConfig(bf16=True, backend="native")
    with pytest.raises(ValueError, match=r"expected search.bf16=false on a CPU that does not multiply in bfloat16"):
        Planner(network, config, B)
    assert how_to_run(network, replace(config, backend="auto")) == "compiled"
    assert how_to_run(network, replace(config, bf16=False, backend="auto")) == "native"


@pytest.mark.parametrize(
    ("column", "value"), [("parent", 2 * B), ("parent", -1), ("action", 99), ("shift", 2), ("to_play", -1)]
)
def test_rows_that_cannot_be_are_refused(column: str, value: int) -> None:
    network = make()
    latents, asked = questions(network, B)
    getattr(asked, column)[5] = value
    with pytest.raises(IndexError, match="row 5: no such parent, action, shift or player"):
        answers(SlotStep(network), latents, asked, B, "maxn")


def test_arrays_that_do_not_fit_are_refused() -> None:
    network = make()
    step = SlotStep(network)
    latents, asked = questions(network, B)
    outputs = np.zeros((B, 20), np.float32)
    with pytest.raises(ValueError, match="latents: expected a contiguous float32 array"):
        step.advance(latents.astype(np.float64), asked, 2, B, "maxn", outputs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="outputs: expected a contiguous float32 array of shape"):
        step.advance(latents, asked, 2, B, "maxn", outputs[:, :19].copy())
    with pytest.raises(ValueError, match="expected room for 40 rows of 40 games from node 6 on, got 6 nodes of 40"):
        step.advance(latents, asked, 6, B, "maxn", outputs)
    with pytest.raises(ValueError, match="expected room for 40 rows of 0 games"):
        step.advance(latents, asked, 2, 0, "maxn", outputs)


def tables(game: str = "skyjo", players: int = 3) -> env.VecEnv:
    made = env.make(game, B, players, seed=1)
    made.random_steps(30)
    return made


def plan(planner: Planner, t: env.VecEnv, rows: slice = slice(None)) -> Plan:
    return planner.plan(t.obs[rows], t.legal[rows], t.phase[rows], t.decision_keys(7)[rows])


@pytest.mark.parametrize("backup", ["maxn", "ego"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("game", env.games())
def test_searches_as_with_torch(game: str, workers: int, backup: str) -> None:
    players = min(3, env.describe(game).max_players)
    t, network = tables(game, players), make(game=game, players=players)
    config = SearchConfig(simulations=12, lanes=workers, leaves=2, backup=backup)
    plain, native = (Planner(network, replace(config, backend=kind), B) for kind in ("eager", "native"))
    for rows in (slice(None), slice(0, 5), slice(0, 1)):
        true, found = plan(plain, t, rows), plan(native, t, rows)
        assert found.values == pytest.approx(true.values, abs=1e-3)
        assert (found.actions == true.actions).mean() > 0.9
    assert plan(native, t).policy.tobytes() == plan(native, t).policy.tobytes()


def test_searches_in_bfloat16_are_close() -> None:
    t, network = tables(), make(players=3, shaken=0.0)
    config = SearchConfig(simulations=16, backend="native")
    if "bf16" not in KERNELS:
        pytest.skip("this CPU does not multiply in bfloat16")
    exact, rough = (plan(Planner(network, replace(config, bf16=b), B), t) for b in (False, True))
    assert rough.values.tobytes() != exact.values.tobytes()
    assert rough.values == pytest.approx(exact.values, abs=0.05)
    assert np.abs(rough.values - exact.values).mean() < 0.01


def test_a_planner_follows_its_network() -> None:
    t, network = tables(), make(players=3)
    planner = Planner(network, SearchConfig(simulations=8, backend="native"), B)
    before = plan(planner, t)
    network.load_state_dict({k: v * 0.9 if v.is_floating_point() else v for k, v in network.state_dict().items()})
    after = plan(planner, t)
    assert after.values.tobytes() != before.values.tobytes()
    fresh = Planner(network, SearchConfig(simulations=8, backend="native"), B)
    assert after.values.tobytes() == plan(fresh, t).values.tobytes()
