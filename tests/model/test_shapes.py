"""muzero.model.shapes: shapes of parameters without their memory, and differences in words."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest
import torch

import env
from muzero.model.network import make_network
from muzero.model.presets import VARIANTS, load_model_config, model_names
from muzero.model.shapes import misfit, parameter_shapes
from muzero.model.spec import GameSpec


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", model_names())
def test_shapes_are_those_of_the_network(model: str, variant: str) -> None:
    for game in env.games():
        spec, config = GameSpec.of(game, 2), load_model_config(model, variant)
        weights = {name: p.detach() for name, p in make_network(spec, config).named_parameters()}
        assert parameter_shapes(spec, config) == {name: p.shape for name, p in weights.items()}
        assert misfit(weights, spec, config) == ""


def test_differences_are_listed_and_a_claimed_size_takes_no_memory() -> None:
    spec, config = GameSpec.of("skyjo", 2), load_model_config("tiny", "belief")
    weights = {name: p.detach() for name, p in make_network(spec, config).named_parameters()}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "expected [" in misfit(weights, spec, replace(config, hidden=1_000_000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, "kilobytes"
    first = next(iter(weights))
    assert misfit({**weights, "more": weights[first]}, spec, config) == "more is unknown"
    assert misfit({n: w for n, w in weights.items() if n != first}, spec, config) == f"{first} is missing"
    whole = {**weights, first: weights[first].to(torch.int32)}
    assert "expected floating-point numbers" in misfit(whole, spec, config)
