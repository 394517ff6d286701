"""Losses and learner of proximal policy optimisation, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import env
from muzero.config import LearnerConfig, PpoConfig
from muzero.data.rollouts import Decisions
from muzero.model.interface import Prediction
from muzero.model.layers import Support
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.training.ppo import PPO_LOSSES, PpoLearner, ppo_losses
from muzero.training.ppo_epochs import minibatches

CLIP = 0.2


class Fixed:
    """Network that says the same about every position: two players, three actions."""

    def __init__(self, logits: list[float]) -> None:
        self.logits = torch.tensor(logits, requires_grad=True)
        self.spec, self.num_players, self.frame = SimpleNamespace(private=False), 2, "mover"
        self.support = Support(-1.0, 1.0, 3)

    def represent(self, obs: Tensor) -> Tensor:
        return obs.float()

    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        n = len(latent)
        return Prediction(self.logits.expand(n, 3), torch.zeros(n, 2, 3), None, None, torch.zeros(n, 2, 3))


def batch(action: int, advantage: float, log_chance: float, legal: list[bool], free: float = 1.0) -> dict[str, Tensor]:
    return {
        "obs": torch.zeros(1, 1),
        "legal": torch.tensor([legal]),
        "action": torch.tensor([action]),
        "log_chance": torch.tensor([log_chance]),
        "advantage": torch.tensor([advantage]),
        "value": torch.tensor([[1.0, -0.5]]),
        "free": torch.tensor([free]),
    }


def losses(network: Any, given: dict[str, Tensor]) -> dict[str, Tensor]:
    found, _ = ppo_losses(network, given, CLIP)
    return dict(zip(PPO_LOSSES, found[:, 0], strict=True))


def test_losses_equal_values_by_hand() -> None:
    """The second action is illegal, so the first has probability 1/2; it had 0.4 when it was drawn."""
    found = losses(Fixed([0.0, 5.0, 0.0]), batch(0, 2.0, float(np.log(0.4)), [True, False, True]))
    assert found["policy"].item() == pytest.approx(-1.2 * 2.0)  # a ratio of 1.25 is clipped at 1.2
    assert found["entropy"].item() == pytest.approx(np.log(2), rel=1e-5)
    assert found["kl"].item() == pytest.approx(1.25 - 1 - np.log(1.25), rel=1e-4)
    assert found["clipped"].item() == 1
    # Uniform distributions over three bins, for two seats with half of the weight each.
    assert found["value"].item() == pytest.approx(np.log(3), rel=1e-5)


def test_distance_from_the_value_target_is_that_of_the_mover() -> None:
    _, distance = ppo_losses(Fixed([0.0] * 3), batch(0, 1.0, 0.0, [True] * 3), CLIP)  # type: ignore[arg-type]
    assert distance.tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("ratio", "advantage", "learns"),
    [(1.0, 1.0, True), (1.3, 1.0, False), (0.7, 1.0, True), (1.0, -1.0, True), (0.7, -1.0, False), (1.3, -1.0, True)],
)
def test_policy_gains_nothing_by_moving_on_beyond_the_clip(ratio: float, advantage: float, learns: bool) -> None:
    network = Fixed([0.0, 0.0, 0.0])
    losses(network, batch(1, advantage, float(np.log(1 / 3 / ratio)), [True] * 3))["policy"].backward()
    gradient = network.logits.grad
    assert gradient is not None
    assert bool(gradient.any()) == learns
    if learns:  # a good action becomes more likely, a bad one less
        assert (-gradient[1] * advantage).item() > 0


def test_forced_decisions_teach_values_only_and_do_not_thin_out_the_others() -> None:
    one, forced = batch(0, 2.0, 0.0, [True] * 3), batch(1, 9.0, 0.0, [False, True, False], free=0.0)
    both = {name: torch.cat([one[name], forced[name]]) for name in one}
    alone, _ = ppo_losses(Fixed([0.1, 0.2, 0.3]), one, CLIP)  # type: ignore[arg-type]
    found, _ = ppo_losses(Fixed([0.1, 0.2, 0.3]), both, CLIP)  # type: ignore[arg-type]
    assert found.mean(1).tolist() == pytest.approx(alone[:, 0].tolist(), rel=1e-5)
    assert found[PPO_LOSSES.index("policy"), 1] == 0
    assert torch.isfinite(found).all()


# ---- the learner -------------------------------------------------------------------------------------------------


def make_learner(**changes: Any) -> PpoLearner:
    torch.manual_seed(0)
    model = replace(load_model_config("tiny", "baseline"), width=16, hidden=32, global_dim=32)
    network = Network(GameSpec.of("skyjo", 2), model)
    config = {"backend": "torch", "lr": 1e-2, "warm_up_steps": 0, "decay_steps": 4, **changes}
    return PpoLearner(network, LearnerConfig(**config), PpoConfig(entropy=0.02), threads=1)


def decisions(network: Network, count: int = 64, seed: int = 0) -> Decisions:
    """Decisions at the beginning of games, drawn by the network itself: the first legal action was good, others bad."""

    tables = env.make("skyjo", count, 2, {"episode": "round"}, seed=seed)
    tables.random_steps(7)
    legal = tables.legal.copy()
    with torch.no_grad():
        _, outputs = network.initial(torch.from_numpy(tables.obs), "maxn")
    A = legal.shape[1]
    log_policy = outputs[:, :A].masked_fill(torch.from_numpy(~legal), -torch.inf).log_softmax(1).numpy()
    rng = np.random.default_rng(seed)
    action = np.array([rng.choice(np.flatnonzero(row)) for row in legal])
    good = action == legal.argmax(1)
    return Decisions(
        obs=tables.obs.copy(),
        legal=legal,
        action=action,
        log_chance=log_policy[np.arange(count), action],
        advantage=np.where(good, 1.0, -1.0).astype(np.float32),
        value=np.stack([good - 0.5, 0.5 - good], 1).astype(np.float32),
        free=(legal.sum(1) > 1).astype(np.float32),
        weights=np.ones(count, np.float32),
    )


def chance_of_first(learner: PpoLearner, given: Decisions) -> float:
    with torch.no_grad():
        _, outputs = learner.network.initial(torch.from_numpy(given.obs), "maxn")
    legal = torch.from_numpy(given.legal)
    policy = outputs[:, : legal.shape[1]].masked_fill(~legal, -torch.inf).softmax(1).numpy()
    free = given.free > 0
    return float(policy[np.arange(len(given)), given.legal.argmax(1)][free].mean())


def test_steps_make_good_actions_more_likely_and_report_what_moved() -> None:
    learner = make_learner()
    assert isinstance(learner.network, Network)
    given = decisions(learner.network)
    before = chance_of_first(learner, given)
    learner.begin_epoch()
    learner.step(given, iteration=0)
    assert learner.kl() == pytest.approx(0, abs=1e-5)  # the first step is about the policy that played
    for _ in range(7):
        learner.step(given, iteration=0)
    assert chance_of_first(learner, given) > before + 0.05
    learner.begin_epoch()
    learner.step(given, iteration=0)
    assert learner.kl() > 1e-3
    report = learner.report()
    assert set(report) == {*PPO_LOSSES, "total", "gradient", "td_error"}
    wanted = report["policy"] + learner.config.value_weight * report["value"] - 0.02 * report["entropy"]
    assert report["total"] == pytest.approx(wanted, rel=1e-4)
    assert learner.learning_rate() == pytest.approx(1e-3)  # the schedule is that of every learner


def test_dynamics_and_rewards_are_not_trained() -> None:
    """They stay as they are but for the decay of all weights, which is off here."""
    learner = make_learner(weight_decay=0.0)
    assert isinstance(learner.network, Network)
    before = {name: p.detach().clone() for name, p in learner.network.named_parameters()}
    learner.step(decisions(learner.network), iteration=0)
    moved = {name.split(".")[0] for name, p in learner.network.named_parameters() if not torch.equal(p, before[name])}
    assert {"representation", "trunk", "policy", "value"} <= moved
    assert not {"dynamics", "reward", "decoder"} & moved


def test_native_passes_give_the_gradients_of_torch() -> None:
    learners = make_learner(), make_learner(backend="native")
    assert learners[1].native is not None
    gradients = []
    for learner in learners:
        assert isinstance(learner.network, Network)
        learner.step(decisions(learner.network), iteration=0)
        gradients.append({n: p.grad for n, p in learner.network.named_parameters() if p.grad is not None})
    one, other = gradients
    assert "trunk.boards.weight" in one
    for name in one.keys() | other.keys():
        found = [(grad[name] if name in grad else torch.zeros(1)) for grad in (one, other)]
        assert float((found[0] - found[1]).abs().max()) < 1e-5, name
    assert learners[0].report() == pytest.approx(learners[1].report(), rel=1e-4, abs=1e-6)


def test_minibatches_hold_every_decision_once_in_an_order_of_the_seed() -> None:
    network = make_learner().network
    assert isinstance(network, Network)
    parts = [decisions(network, 50), decisions(network, 7)]
    parts = [replace(part, weights=np.arange(len(part), dtype=np.float32)) for part in parts]
    drawn = [list(minibatches(parts, 16, np.random.default_rng(seed))) for seed in (1, 1, 2)]
    assert sorted(len(one) for one in drawn[0]) == [7, 12, 12, 13, 13]
    found = sorted(number for one in drawn[0] for number in one.weights.tolist())
    assert found == sorted([*range(50), *range(7)])
    orders = [[one.weights.tolist() for one in each] for each in drawn]
    assert orders[0] == orders[1] != orders[2]
