"""Networks of one's own: what they must provide, and that search and learner can use them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import env
from muzero.config import ModelConfig, SearchConfig
from muzero.model.interface import BaseNetwork, Prediction
from muzero.model.network import NETWORKS, Network, make_network, register_network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.backend import resolve_backend
from muzero.search.planner import Planner
from tests.model.helpers import kinds, played_tables, random_network, seats, variants_and_chance


class LinearNetwork(BaseNetwork):
    """A network of linear layers and embeddings, whose latent keeps the frame of the root."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__(spec, config)
        self.frame, self.latent_dim = "root", config.latent_dim
        L, P, N = config.latent_dim, spec.num_players, config.value_bins
        self.encoder = nn.Linear(spec.width, L)
        self.action = nn.Embedding(spec.num_actions, L)
        self.policy = nn.Linear(L, spec.num_actions)
        self.value = nn.Linear(L, P * N)
        self.reward = nn.Linear(L, P * N)

    def represent(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.encoder(obs.float() / 8))

    def step(self, latent: Tensor, action: Tensor, shift: Tensor, outcome: Tensor) -> Tensor:
        return torch.tanh(latent + self.action(action))

    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        value, reward = (head(latent).unflatten(1, (self.num_players, -1)) for head in (self.value, self.reward))
        return Prediction(self.policy(latent), value, None, None, reward)


@pytest.mark.parametrize(("game", "backup"), [("skyjo", "maxn"), ("lama", "ego")])
def test_custom_network_plays_a_game_with_search_and_legal_actions(
    game: str, backup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muzero.model.network.NETWORKS", dict(NETWORKS))
    register_network("linear", LinearNetwork)
    torch.manual_seed(0)
    network = make_network(GameSpec.of(game, 2), ModelConfig(latent_dim=16), "linear").eval()
    assert isinstance(network, LinearNetwork)
    planner = Planner(network, SearchConfig(simulations=4, backup=backup, backend="eager"), 1)
    tables = env.make(game, 1, 2, seed=5, auto_reset=False)
    decisions = 0
    while not tables.done.all():
        plan = planner.plan(tables.obs, tables.legal_bits, tables.phase, tables.decision_keys(1))
        assert tables.legal[0, plan.actions[0]]
        assert plan.values.shape == (1, 2 if backup == "maxn" else 1)
        assert plan.policy.sum() == pytest.approx(1.0, abs=1e-5)
        tables.step(plan.actions)
        decisions += 1
    assert decisions > 5
    assert planner.clock.simulations > 0


@kinds
@variants_and_chance
def test_default_search_outputs_are_those_of_the_networks_own(
    latent: str, encoder: str, variant: str, chance: str
) -> None:
    """`Network` overrides the defaults to save work, not to change results."""
    network = random_network(latent, encoder, variant, chance=chance)
    obs, to_play = torch.from_numpy(played_tables().obs), seats(16, 3)
    with torch.no_grad():
        hidden = network.represent(obs)
        for backup, values in (("maxn", 3), ("ego", 1)):
            for root in (True, False):
                own = network.evaluate(hidden, to_play, backup, root)
                default = BaseNetwork.evaluate(network, hidden, to_play, backup, root)
                torch.testing.assert_close(own, default, rtol=1e-4, atol=1e-5)
                outcomes = 16 if chance == "game" else 0
                assert own.shape == (16, 16 + values if root else 16 + outcomes + 2 * values)
        for one, other in zip(
            network.values_of_observation(obs), BaseNetwork.values_of_observation(network, obs), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_networks_are_made_by_the_name_of_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muzero.model.network.NETWORKS", dict(NETWORKS))
    spec, config = GameSpec.of("skyjo", 2), load_model_config("tiny")
    assert type(make_network(spec, config)) is Network
    with pytest.raises(ValueError, match="kind of network: expected one of muzero, got 'linear'"):
        make_network(spec, config, "linear")
    register_network("linear", LinearNetwork)
    assert type(make_network(spec, config, "linear")) is LinearNetwork
    with pytest.raises(ValueError, match="kind of network: expected a new name beside muzero, linear, got 'muzero'"):
        register_network("muzero", LinearNetwork)


def test_native_step_refuses_a_custom_network_whatever_its_configuration_says() -> None:
    config = load_model_config("tiny")
    assert config.latent == "slots"
    network, own = LinearNetwork(GameSpec.of("skyjo", 2), config), Network(GameSpec.of("skyjo", 2), config)
    assert resolve_backend(own, SearchConfig(backend="auto")) == "native"
    assert resolve_backend(network, SearchConfig(backend="auto")) == "compiled"
    reason = r"search\.backend=native: expected .* parts of muzero\.model\.network\.Network, got LinearNetwork"
    with pytest.raises(ValueError, match=reason):
        resolve_backend(network, SearchConfig(backend="native"))


def test_parts_that_a_custom_network_lacks_are_refused() -> None:
    spec, config = GameSpec.of("skyjo", 3), ModelConfig(latent_dim=16)
    network = LinearNetwork(spec, config)
    weights = dict(network.named_parameters())
    assert network.weights_for(3, weights) == weights
    with pytest.raises(ValueError, match="players: expected 3, the number this network is for, got 2"):
        network.weights_for(2, weights)
    network.set_ablation("none")
    with pytest.raises(ValueError, match="ablation: expected none for a LinearNetwork, got 'no_ego'"):
        network.set_ablation("no_ego")
    with pytest.raises(NotImplementedError, match="LinearNetwork has a decoder, but no reconstruction_loss"):
        network.reconstruction_loss(torch.zeros(1, 16), torch.zeros(1, spec.width))
    with pytest.raises(ValueError, match=r"model\.hidden: expected 1 or more"):
        LinearNetwork(spec, replace(config, hidden=0))
    with pytest.raises(TypeError, match="abstract"):
        BaseNetwork(spec, config)  # type: ignore[abstract]
