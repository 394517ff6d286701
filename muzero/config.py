"""Configuration as dataclasses; Hydra fills them from conf/ and refuses keys that are not here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


COMPILE = ("off", "on", "graphs")


def require(good: bool, key: str, expected: str, value: Any) -> None:
    """Refuses a value, naming its key."""
    if not good:
        raise ValueError(f"{key}: expected {expected}, got {value!r}")


@dataclass
class ModelConfig:
    """The network. conf/model/*.yaml documents the choices of the presets.

    Attributes:
      latent: "flat", one vector (the paper); "slots", a vector per slot of the game and a global one.
      encoder: "transformer" over tokens (the paper); "columns", sets of blocks of slots, which does not change
        when blocks, or the slots of a block, trade places (needs latent=slots).
      layers, heads, width, feedforward: of the transformer.
      latent_dim: of the flat latent.
      slot_dim, global_dim: of the slots latent.
      slot_hidden: width of what is computed for each slot.
      hidden: width of the dynamics and prediction MLPs.
      action_dim: of the action embedding (flat).
      value_min, value_max, value_bins: support of the categorical value and reward heads.
      counts: whether the encoder reads the tokens that count unseen cards.
      ego: condition predictions on the player they are for (variant).
      outcome: predict winner and ranks (variant).
    """

    latent: str = "slots"
    encoder: str = "columns"
    layers: int = 2
    heads: int = 4
    width: int = 64
    feedforward: int = 128
    latent_dim: int = 256
    slot_dim: int = 8
    global_dim: int = 64
    slot_hidden: int = 16
    hidden: int = 128
    action_dim: int = 32
    value_min: float = -2.0
    value_max: float = 2.0
    value_bins: int = 21
    counts: bool = True
    ego: bool = False
    outcome: bool = False

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.latent in ("flat", "slots"), "model.latent", "flat or slots", self.latent)
        require(self.encoder in ("transformer", "columns"), "model.encoder", "transformer or columns", self.encoder)
        require(
            self.encoder != "columns" or self.latent == "slots",
            "model.encoder",
            "transformer with model.latent=flat (the columns encoder cannot tell the slots of one vector apart)",
            self.encoder,
        )
        for name in ("layers", "heads", "width", "feedforward", "latent_dim", "slot_dim", "global_dim"):
            require(getattr(self, name) >= 1, f"model.{name}", "1 or more", getattr(self, name))
        for name in ("slot_hidden", "hidden", "action_dim"):
            require(getattr(self, name) >= 1, f"model.{name}", "1 or more", getattr(self, name))
        require(self.width % self.heads == 0, "model.width", f"a multiple of heads ({self.heads})", self.width)
        require(self.value_bins >= 2, "model.value_bins", "2 or more", self.value_bins)
        require(self.value_min < self.value_max, "model.value_min", f"less than {self.value_max}", self.value_min)


@dataclass
class SearchConfig:
    """The search. See `mcts.Search` for what each setting does.

    Attributes:
      algorithm: "gumbel" or "puct".
      simulations: per decision.
      backup: "maxn" or "ego".
      leaves: selected per game and step.
      discount: of values one decision later.
      skip_forced: do not search where only one action is legal.
      bf16: run the network in bfloat16 (autocast).
      compile: "off"; "on", through torch.compile, which takes half a minute at the start and pays for it soon;
        "graphs", with CUDA graphs too (GPU only).
      threads: of a lane's trees.
      workers: lanes that share the games, each with a thread of its own.
    """

    algorithm: str = "gumbel"
    simulations: int = 16
    backup: str = "maxn"
    leaves: int = 1
    discount: float = 0.997
    pb_c_base: float = 19652.0
    pb_c_init: float = 1.25
    dirichlet_alpha: float = 0.3
    dirichlet_fraction: float = 0.25
    unvisited: str = "neutral"
    virtual_loss: float = 1.0
    max_considered: int = 8
    gumbel_scale: float = 1.0
    value_scale: float = 0.1
    maxvisit_init: float = 50.0
    skip_forced: bool = True
    bf16: bool = False
    compile: str = "off"
    threads: int = 1
    workers: int = 1

    def check(self) -> None:
        """Refuses impossible values by name (the search itself checks the rest)."""
        require(self.algorithm in ("gumbel", "puct"), "search.algorithm", "gumbel or puct", self.algorithm)
        require(self.backup in ("maxn", "ego"), "search.backup", "maxn or ego", self.backup)
        require(self.unvisited in ("neutral", "lowest"), "search.unvisited", "neutral or lowest", self.unvisited)
        require(self.compile in COMPILE, "search.compile", f"one of {', '.join(COMPILE)}", self.compile)
        require(self.simulations >= 0, "search.simulations", "0 or more", self.simulations)
        require(self.workers >= 1, "search.workers", "1 or more", self.workers)
