"""muzero.matches.value_check: against exact values in Kuhn poker, and the estimators against numbers that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import env
from muzero.agents.agents import Policy
from muzero.matches import value_check
from muzero.matches.value_check import ValueCheck, check_values, network_values, play_out
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from tests.oracle.kuhn_tables import POSITIONS, tables_at


def kuhn_network(seed: int = 3) -> Network:
    """An untrained network; its policy is deterministic, and its values are wrong."""
    torch.manual_seed(seed)
    return Network(GameSpec.of("kuhn", 2), load_model_config("tiny", "belief")).eval()


def exact_values(network: Network) -> dict[bytes, float]:
    """Value of each observation for the player to move, if the network's policy plays on: the mean over both worlds."""
    tables = tables_at(POSITIONS)
    seen, movers = tables.obs.copy(), tables.to_play.copy()
    paid = play_out(Policy(network), tables)[np.arange(len(POSITIONS)), movers]
    found: dict[bytes, list[float]] = {}
    for row, reward in zip(seen, paid, strict=True):
        found.setdefault(row.tobytes(), []).append(float(reward))
    assert all(len(rewards) == 2 for rewards in found.values())
    return {row: float(np.mean(rewards)) for row, rewards in found.items()}


def test_playouts_have_the_exact_means_and_the_error_is_that_of_the_values() -> None:
    network, n = kuhn_network(), 600
    found = check_values(network, "official", positions=n, playouts=24, seed=5)
    positions = value_check.played_positions(Policy(network), "kuhn", 2, "official", n, 5)
    table = exact_values(network)
    exact = np.array([table[row.tobytes()] for row in positions.obs])
    assert found.values == pytest.approx(network_values(network, positions.obs)[:, 0])
    error = found.returns.std(1).max() / np.sqrt(24)
    assert np.abs(found.returns.mean(1) - exact).max() < 5 * error
    assert found.returns.mean() == pytest.approx(exact.mean(), abs=0.02)
    true = float(np.sqrt(np.square(found.values - exact).mean()))
    assert true > 0.2
    assert found.rmse == pytest.approx(true, abs=0.03)
    assert found.spread == pytest.approx(exact.std(), abs=0.03)
    assert found.bias == pytest.approx((found.values - exact).mean(), abs=0.03)


@pytest.mark.parametrize("playouts", [2, 16])
def test_estimators_take_out_the_noise_of_the_playouts(playouts: int) -> None:
    """Values are off by 0.3 with a bias of 0.1; playouts scatter by 1 about truths that scatter by 0.5."""
    rng, n = np.random.default_rng(1), 40_000
    truth = rng.normal(0, 0.5, n)
    off = rng.normal(0.1, np.sqrt(0.3**2 - 0.1**2), n)
    found = ValueCheck(truth + off, truth[:, None] + rng.normal(size=(n, playouts)))
    assert found.rmse == pytest.approx(0.3, abs=0.02)
    assert found.bias == pytest.approx(0.1, abs=0.02)
    assert found.spread == pytest.approx(0.5, abs=0.02)
    naive = float(np.sqrt(np.square(found.values - found.returns.mean(1)).mean()))
    assert naive == pytest.approx(np.sqrt(0.09 + 1 / playouts), abs=0.02)


def test_exact_values_have_no_error() -> None:
    truth: NDArray[np.float64] = np.linspace(-1, 1, 50)
    found = ValueCheck(truth, np.repeat(truth[:, None], 3, 1))
    assert (found.rmse, found.bias) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert found.spread == pytest.approx(truth.std())


def test_the_same_seed_gives_the_same_check_and_another_does_not() -> None:
    network = kuhn_network()
    one, same, other = (check_values(network, "official", positions=40, playouts=2, seed=s) for s in (1, 1, 2))
    assert one.returns.tobytes() == same.returns.tobytes()
    assert one.returns.tobytes() != other.returns.tobytes()


def test_positions_are_of_all_stages_of_a_round() -> None:
    torch.manual_seed(0)
    network = Network(GameSpec.of("skyjo", 2), load_model_config("tiny", "belief")).eval()
    rules: env.Rules = {"preset": "official", "episode": "round", "max_decisions": 60}
    found = value_check.played_positions(Policy(network), "skyjo", 2, rules, 64, 0)
    assert len(set(found.phase.tolist())) > 1
    assert found.legal.any(1).all()
    assert len({row.tobytes() for row in found.obs}) > 60
