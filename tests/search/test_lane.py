"""muzero.search.lane: one arena of trees and hidden states, with the network in torch or in C++."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import env
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.backend import make_native_step
from muzero.search.lane import Lane
from muzero.search.plan import Analysis, Plan

B, A = 12, 16
STEPS = pytest.mark.parametrize("backend", ["eager", "native"])


@pytest.fixture(scope="module")
def network() -> Network:
    torch.manual_seed(0)
    made = Network(GameSpec.of("skyjo", 3), load_model_config("tiny", "belief")).eval()
    for parameter in made.parameters():  # heads that start at 0 would let every search look the same
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def tables() -> env.VecEnv:
    """Tables in mid-game; at the last three only one action is legal in the searches below."""
    made = env.make("skyjo", B, 3, seed=1)
    made.random_steps(30)
    return made


def masks(t: env.VecEnv) -> np.ndarray:
    legal = t.legal_bits.copy()
    legal[-3:] &= ~legal[-3:] + np.uint64(1)  # the lowest legal action alone
    return legal


def make(network: Network, backend: str = "eager", batch: int = B, **settings: object) -> Lane:
    config = SearchConfig(backend=backend, **{"simulations": 8, **settings})  # type: ignore[arg-type]
    return Lane(network, config, batch, make_native_step(network, config))


def plan(lane: Lane, rows: slice = slice(None)) -> Plan:
    t = tables()
    return lane.plan(t.obs[rows], masks(t)[rows], t.phase[rows], t.decision_keys(7)[rows], 1.0)


def analyse(lane: Lane) -> Analysis:
    t = tables()
    return lane.analyse(t.obs, masks(t), t.phase, t.decision_keys(7), 1.0)


def test_the_native_step_and_torch_find_the_same(network: Network) -> None:
    one, other = (analyse(make(network, backend)) for backend in ("eager", "native"))
    assert (one.visits == other.visits).mean() > 0.95, "rounding may turn a close choice"
    assert one.prior == pytest.approx(other.prior, abs=1e-5)
    assert one.values == pytest.approx(other.values, abs=0.05)


@STEPS
def test_forced_moves_keep_their_places_among_the_positions_that_are_searched(network: Network, backend: str) -> None:
    order = np.array([9, 0, 1, 10, 2, 3, 4, 11, 5, 6, 7, 8])  # forced moves in between
    t, lane = tables(), make(network, backend)
    legal = masks(t)
    whole = plan(lane)
    mixed = lane.plan(t.obs[order], legal[order], t.phase[order], t.decision_keys(7)[order], 1.0)
    assert (mixed.actions == whole.actions[order]).all()
    assert mixed.policy == pytest.approx(whole.policy[order], abs=1e-4)
    assert mixed.values == pytest.approx(whole.values[order], abs=1e-4)
    searched = analyse(lane)
    assert (searched.actions == whole.actions).all()
    assert whole.policy[:-3] == pytest.approx(searched.policy[:-3], abs=1e-4)
    assert whole.values[:-3] == pytest.approx(searched.values[:-3], abs=1e-4)
    chosen = np.uint64(1) << whole.actions.astype(np.uint64)
    assert (chosen[-3:] == legal[-3:]).all()
    assert (whole.policy[-3:].max(1) == 1).all()
    with torch.inference_mode():
        _, outputs = network.initial(torch.from_numpy(t.obs[-3:]), "maxn")
    assert whole.values[-3:] == pytest.approx(outputs[:, A:].numpy(), abs=1e-5), "the network's own values"


@STEPS
def test_actions_are_valued_from_the_hidden_state_of_their_own_root(network: Network, backend: str) -> None:
    t, lane = tables(), make(network, backend)
    phase = np.zeros_like(t.phase)
    legal = np.full(B, 0b11, np.uint64)
    found = lane.analyse(t.obs, legal, phase, t.decision_keys(7), 1.0)
    changed = t.obs.copy()
    changed[4] = t.obs[5]
    other = lane.analyse(changed, legal, phase, t.decision_keys(7), 1.0)
    same = [np.array_equal(one, two, equal_nan=True) for one, two in zip(found.q, other.q, strict=True)]
    assert same == [row != 4 for row in range(B)]
    assert np.nanmin(np.abs(other.q[4] - found.q[4])) > 1e-3


@STEPS
def test_the_clock_counts_simulations_of_positions_that_are_searched(network: Network, backend: str) -> None:
    lane = make(network, backend)
    plan(lane)
    searched = int((tables().legal[:-3].sum(1) > 1).sum())
    assert lane.clock.simulations == 8 * searched
    assert lane.clock.levels >= lane.clock.simulations
    assert min(lane.clock.encoder, lane.clock.network, lane.clock.tree) > 0
    analyse(lane)
    assert lane.clock.simulations == 8 * searched + 8 * B, "an analysis searches forced moves too"


@STEPS
def test_running_the_network_in_advance_changes_no_plan(network: Network, backend: str) -> None:
    fresh, warm = make(network, backend), make(network, backend)
    warm.run_network()
    assert warm.clock.simulations == 0
    one, other = plan(fresh), plan(warm)
    assert one.policy.tobytes() == other.policy.tobytes()
    assert one.values.tobytes() == other.values.tobytes()
    nothing = make(network, backend, simulations=0)
    nothing.run_network()  # there is no recurrent step to run
    assert plan(nothing).policy.sum(1) == pytest.approx(np.ones(B), abs=1e-5)


def test_memory_grows_with_the_batch_and_holds_a_latent_per_node(network: Network) -> None:
    small, large = make(network, batch=B), make(network, batch=2 * B)
    assert 1.9 * small.bytes < large.bytes < 2.1 * small.bytes
    nodes = small.trees.nodes
    assert nodes >= 9, "the root and a node for each simulation"
    assert small.bytes >= small.trees.bytes + 4 * nodes * B * network.latent_dim


@STEPS
@pytest.mark.parametrize("leaves", [1, 2])
def test_a_part_of_the_batch_has_the_plans_of_the_whole(network: Network, backend: str, leaves: int) -> None:
    """Hidden states lie where the trees expect them if fewer games are searched than there is room for."""
    settings = {"skip_forced": False, "leaves": leaves}
    whole, part = plan(make(network, backend, **settings)), plan(make(network, backend, **settings), slice(2, 7))
    assert (whole.actions[2:7] == part.actions).all()
    assert whole.values[2:7] == pytest.approx(part.values, abs=0.05)


@STEPS
def test_search_passes_over_players_who_have_left_the_round(backend: str) -> None:
    """L.A.M.A. with four players: below the root, the turn goes to the next player who has not folded."""
    torch.manual_seed(0)
    four = Network(GameSpec.of("lama", 4), load_model_config("tiny", "belief")).eval()
    lane = make(four, backend, batch=64, skip_forced=False)
    t = env.make("lama", 64, 4, seed=3)
    skipped = 0
    for step in range(12):
        lane.plan(t.obs, t.legal_bits, t.phase, t.decision_keys(7), 1.0)
        tree = lane.trees.tree()
        for row in range(64):
            folded = [bool(t.inspect(row)["folded"][(int(t.to_play[row]) + k) % 4]) for k in range(4)]
            for action, child in enumerate(tree["child"][row, 0].tolist()):
                if child < 0 or t.phase[row] == 1:
                    continue
                following = next(k for k in (1, 2, 3, 0) if not folded[k])
                assert tree["to_play"][row, child] == following, (row, action)
                skipped += following > 1
        t.step(t.sample_actions(step))
    assert skipped > 50
