"""Warm start: a new run that begins with trained weights (`train.init`)."""

from __future__ import annotations

from torch import Tensor

from muzero.agents.agent_spec import AgentSpec, load_network, resolve
from muzero.config import Config
from muzero.config.fields import require
from muzero.model.shapes import misfit
from muzero.model.spec import GameSpec

_KEY = "train.init"
_KINDS = ("checkpoint", "policy", "agent")
_OPTIONS = ("iteration", "imports")


def pinned_init(text: str) -> str:
    """Complete name of the weights to start with: a run's newest checkpoint is named by its iteration."""
    if not text:
        return ""
    spec = AgentSpec.parse(text)
    expected = f"weights: {', '.join(f'{kind}:...' for kind in _KINDS)}, with options among {', '.join(_OPTIONS)}"
    require(spec.kind in _KINDS and set(spec.options) <= set(_OPTIONS), _KEY, expected, text)
    if spec.kind == "agent":
        return str(resolve(spec).without("bf16"))
    policy = resolve(AgentSpec("policy", spec.target, spec.options))  # without settings of a search, which is not used
    return str(AgentSpec(spec.kind, spec.target, policy.options))


def initial_weights(config: Config) -> dict[str, Tensor] | None:
    """Weights that a new run starts with, on the CPU; None for random weights.

    Those of the moving average are taken where there is one, since they are the ones that play. An error names
    `train.init` if the weights are of another game, number of players or network.
    """
    if not config.train.init:
        return None
    spec = GameSpec.of(config.game.name, config.player_counts()[-1])
    try:
        network, _ = load_network(AgentSpec.parse(config.train.init), spec.game, spec.num_players)
    except ValueError as error:
        raise ValueError(f"{_KEY}: {error}") from None
    weights = {name: parameter.detach().cpu() for name, parameter in network.named_parameters()}
    differences = misfit(weights, spec, config.model)
    expected = "weights of the network that model describes"
    require(not differences, _KEY, expected, f"{config.train.init}: {differences}")
    return weights
