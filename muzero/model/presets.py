"""Sizes and variants of the model: conf/model/*.yaml as configurations, and a table of their parameter counts.

The table is printed by `python -m muzero.model.presets`.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from importlib.resources import files

from omegaconf import OmegaConf
from torch import nn

import env
from muzero.config import ModelConfig
from muzero.config.fields import require
from muzero.model.network import Network
from muzero.model.spec import GameSpec


@dataclass(frozen=True)
class Variant:
    """Flags in which a variant differs from the others; everything else is the same.

    Attributes:
      ego: whether the network has ego conditioning.
      outcome_heads: whether the network has heads for winner and ranks.
      card_beliefs: whether the network predicts hidden cards; it is then told the outcomes of chance events, too.
    """

    ego: bool
    outcome_heads: bool
    card_beliefs: bool = False


VARIANTS = {
    "baseline": Variant(ego=False, outcome_heads=False),
    "belief": Variant(ego=True, outcome_heads=True),
    "ego_only": Variant(ego=True, outcome_heads=False),
    "heads_only": Variant(ego=False, outcome_heads=True),
    "belief_cards": Variant(ego=True, outcome_heads=True, card_beliefs=True),
}


def model_names() -> list[str]:
    """Names of the models in conf/model, in alphabetical order."""
    paths = (files("conf") / "model").iterdir()
    return sorted(path.name.removesuffix(".yaml") for path in paths if path.name.endswith(".yaml"))


def load_model_config(name: str, variant: str = "baseline") -> ModelConfig:
    """Configuration of a model in conf/model with a variant's flags, as `model=NAME +variant=VARIANT` gives it.

    Args:
      name: name of a file in conf/model, without .yaml.
      variant: name of the variant, one of `VARIANTS`.
    """
    require(name in model_names(), "model", f"one of {', '.join(model_names())}", name)
    require(variant in VARIANTS, "variant", f"one of {', '.join(VARIANTS)}", variant)
    raw = OmegaConf.create((files("conf") / "model" / f"{name}.yaml").read_text())
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), raw))
    assert isinstance(config, ModelConfig)
    flags = VARIANTS[variant]
    return replace(config, **asdict(flags), chance="game" if flags.card_beliefs else config.chance)


def main() -> None:
    """Print a table of the parameter counts of all models and variants."""
    parser = argparse.ArgumentParser(prog="python -m muzero.model.presets", description="Table of parameter counts.")
    parser.add_argument("--game", default=env.games()[0], choices=env.games())
    parser.add_argument("--players", type=int, default=2)
    options = parser.parse_args()
    spec = GameSpec.of(options.game, options.players)
    shared = ("representation", "dynamics", "condition", "trunk")
    parts = (*shared, "policy", "value", "reward", "outcome", "cards", "winner", "rank", "decoder")
    print(f"{options.game}, {options.players} players: parameters\n")
    print(f"{'model':8}{'variant':12}{'latent':>14}" + "".join(f"{part:>16}" for part in (*parts, "total")))
    for model in model_names():
        for variant in VARIANTS:
            network = Network(spec, load_model_config(model, variant))
            counts = [count_parameters(getattr(network, part)) for part in parts]
            latent = f"{network.config.latent} {network.latent_dim}"
            cells = (*counts, count_parameters(network))
            print(f"{model:8}{variant:12}{latent:>14}" + "".join(f"{count:>16,}" for count in cells))


def count_parameters(module: nn.Module | None) -> int:
    """Number of trainable parameters of a module; 0 for None."""
    return sum(p.numel() for p in module.parameters()) if module is not None else 0


if __name__ == "__main__":
    main()
