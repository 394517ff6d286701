"""One network family: a token encoder, a latent (flat or slots), dynamics and prediction, with variants as flags.

Everything is stated in a *frame*: an order of the seats. A root's frame starts with the player to move there. The flat
latent keeps the root's frame for the whole search ("root"); the slots latent turns with the player to move ("mover").
Shapes: B batch, P players, A actions, L latent, S slots, D slot, G global, E egos, N bins.

    python -m muzero.model.network      prints a table of parameter counts
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import NamedTuple

import torch
from torch import Tensor, nn

from muzero.config import ModelConfig, require
from muzero.model.encoders import ColumnsEncoder, SeatParts, TransformerEncoder, groups_read
from muzero.model.latents import (
    EgoConditioning,
    FlatDynamics,
    FlatPolicy,
    FlatTrunk,
    SlotDecoder,
    SlotDynamics,
    SlotPolicy,
    SlotTrunk,
    Support,
    at_least_single,
    mlp,
    player_dim,
    rest_dim,
)
from muzero.model.spec import GameSpec

ABLATIONS = ("none", "no_ego", "wrong_ego", "zero_all")


class Prediction(NamedTuple):
    """What the network says of a latent, seats in its frame.

    Attributes:
      policy: [B, A] logits for the player to move.
      value: [B, P, N] logits of each seat's value.
      winner: [B, E, P] logits of who wins, seats from each ego's on; E = P with ego conditioning, else 1, the
        frame's first seat. None without the heads.
      rank: [B, E, P, P] logits of each seat's rank, likewise.
    """

    policy: Tensor
    value: Tensor
    winner: Tensor | None
    rank: Tensor | None


class Network(nn.Module):
    """Representation, dynamics and prediction."""

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__()
        config.check()
        self.spec, self.config = spec, config
        self.num_players = spec.num_players
        flat = config.latent == "flat"
        self.frame = "root" if flat else "mover"
        places = spec.num_slots * config.slot_dim + spec.num_players * player_dim(spec, config)
        self.latent_dim = config.latent_dim if flat else places + rest_dim(spec, config)
        groups = groups_read(spec, config)
        encoder = TransformerEncoder if config.encoder == "transformer" else ColumnsEncoder
        self.representation = encoder(spec, config, groups)
        self.dynamics = FlatDynamics(spec, config) if flat else SlotDynamics(spec, config)
        self.condition = EgoConditioning(config.latent_dim if flat else rest_dim(spec, config), config.ego)
        self.trunk: FlatTrunk | SlotTrunk = FlatTrunk(config) if flat else SlotTrunk(spec, config)
        self.policy: FlatPolicy | SlotPolicy = FlatPolicy(spec, config) if flat else SlotPolicy(spec, config)

        def head(outputs: int) -> nn.Module:
            return mlp(self.trunk.dim, config.hidden, outputs) if flat else nn.Linear(self.trunk.dim, outputs)

        P = spec.num_players
        self.value = head(config.value_bins * (1 if config.ego else P))
        self.winner = head(P) if config.outcome_heads else None
        self.rank = head(P * P) if config.outcome_heads else None
        self.decoder = SlotDecoder(spec, config) if not flat and spec.num_slots else None
        self.support = Support(config.value_min, config.value_max, config.value_bins)
        self.register_buffer("seats", torch.arange(P), persistent=False)
        self._seats_of: dict[tuple[int, torch.device], SeatParts] = {}

    seats: Tensor

    def set_ablation(self, ablation: str) -> None:
        """Switches parts of the ego conditioning off at inference; the LayerNorm stays."""
        require(ablation in ABLATIONS, "ablation", f"one of {', '.join(ABLATIONS)}", ablation)
        require(
            ablation == "none" or self.config.ego, "ablation", "none for a model without ego conditioning", ablation
        )
        self.condition.ablation = ablation

    def first_seats(self, players: int) -> SeatParts:
        """Of the parameters that have a part for each seat: the dimension, and what belongs to the first ones.

        Seats are counted from a mover, so the first ones mean the same at a smaller table.
        """
        P, N = self.num_players, self.config.value_bins
        last = "2." if self.config.latent == "flat" else ""  # a head's last layer
        parts: SeatParts = {}
        for name in ("representation", "dynamics"):
            parts |= {f"{name}.{key}": part for key, part in getattr(self, name).first_seats(players).items()}
        if isinstance(self.trunk, SlotTrunk):
            parts["trunk.boards.weight"] = 1, torch.arange(self.trunk.boards.in_features // P * players)
        outputs = {"value": torch.arange(players * N)} if not self.config.ego else {}
        if self.config.outcome_heads:
            outputs["winner"] = torch.arange(players)
            outputs["rank"] = (torch.arange(players)[:, None] * P + torch.arange(players)).flatten()
        for head, index in outputs.items():
            parts |= {f"{head}.{last}{kind}": (0, index) for kind in ("weight", "bias")}
        return parts

    def weights_for(self, players: int, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of this network's weights, those of one for as many players or fewer; gradients flow back."""
        if players == self.num_players:
            return dict(weights)
        require(players < self.num_players, "players", f"at most {self.num_players}", players)
        device = next(iter(weights.values())).device
        key = players, device
        if key not in self._seats_of:
            self._seats_of[key] = {n: (dim, index.to(device)) for n, (dim, index) in self.first_seats(players).items()}
        cut = {name: weights[name].index_select(dim, index) for name, (dim, index) in self._seats_of[key].items()}
        return {**weights, **cut}

    def represent(self, obs: Tensor) -> Tensor:
        """obs [B, W] integers -> latent [B, L], in the frame of the observer."""
        return at_least_single(self.representation(obs))

    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        """latent [B, L], to_play [B] seats in the root's frame -> everything, for every ego."""
        P = self.num_players
        boards, rest = self.trunk.split(latent)
        features = self.trunk(
            boards, self.condition(rest, self.seats[None], self._mover(to_play), P), self.seats[None]
        )  # (B, E, H)
        own = self._movers_own(features, to_play)
        winner = rank = None
        if self.winner is not None and self.rank is not None:
            winner = self.winner(features)
            rank = self.rank(features).unflatten(-1, (P, P))
        value = self.value(features).reshape(len(latent), P, -1)
        return Prediction(self.policy(boards, own), value, winner, rank)

    def values_of_observation(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """obs [B, W] -> latent, values [B, P] in the frame of the observer."""
        latent = self.represent(obs)
        boards, rest = self.trunk.split(latent)
        conditioned = self.condition(rest, self.seats[None], self.seats[:1], self.num_players)
        features = self.trunk(boards, conditioned, self.seats[None])
        return latent, self.support.expectation(self.value(features).reshape(len(obs), self.num_players, -1))

    def _mover(self, to_play: Tensor) -> Tensor:
        """Seat to move in the latents' frame, [B], or [1] where it is the first one's."""
        return to_play if self.frame == "root" else self.seats[:1]

    def _movers_own(self, features: Tensor, to_play: Tensor) -> Tensor:
        """features [B, E, H] -> those of the player to move, [B, H]"""
        if self.frame == "root" and features.shape[1] > 1:
            return features[torch.arange(len(features), device=features.device), to_play]
        return features.unbind(1)[0]

    def reconstruction_loss(self, latent: Tensor, obs: Tensor) -> Tensor:
        """latent [B, L], obs [B, W] of the mover there -> cross entropy of what is to be seen in its slots, [B]."""
        assert self.decoder is not None
        assert isinstance(self.trunk, SlotTrunk)
        return self.decoder(self.trunk.split(latent)[0], obs)  # type: ignore[no-any-return]

    def step(self, latent: Tensor, action: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Next latent and reward logits [B, P, N], seats in the frame of the latent given."""
        latent, reward = self.dynamics(latent, action, shift, self.trunk.touched(latent, action))
        return at_least_single(latent), reward.unflatten(1, (self.num_players, -1))

    # ---- for the search: numbers instead of distributions, and only what it needs -------------------------

    def initial(self, obs: Tensor, backup: str) -> tuple[Tensor, Tensor]:
        """obs [B, W] -> latent, outputs [B, A + V]: policy logits, values."""
        latent = self.represent(obs)
        to_play = torch.zeros(len(obs), dtype=torch.int64, device=obs.device)
        return latent, torch.cat(self._judge(latent, to_play, backup), 1)

    def recurrent(
        self, latent: Tensor, action: Tensor, shift: Tensor, to_play: Tensor, backup: str
    ) -> tuple[Tensor, Tensor]:
        """latent [B, L], action, shift, to_play [B] -> latent, outputs [B, A + 2 V]: policy logits, values, rewards."""
        latent, reward_logits = self.step(latent, action, shift)
        rewards = self.support.expectation(reward_logits)
        if backup == "ego":
            rewards = self._root_seat(rewards, (to_play - shift) % self.num_players)
        return latent, torch.cat([*self._judge(latent, to_play, backup), rewards], 1)

    def _judge(self, latent: Tensor, to_play: Tensor, backup: str) -> tuple[Tensor, Tensor]:
        """Policy logits [B, A] and values [B, V]; one value, the root player's, if the backup is "ego"."""
        P, rows = self.num_players, len(latent)
        boards, rest = self.trunk.split(latent)
        mover = self._mover(to_play)
        only_root = backup == "ego"
        if not self.config.ego:
            features = self.trunk(boards, self.condition(rest, mover[:, None], mover, P), mover[:, None])[:, 0]
            values = self.support.expectation(self.value(features).view(rows, P, -1))
            values = self._root_seat(values, to_play) if only_root else values
            return self.policy(boards, features).float(), values
        if only_root:
            root = torch.zeros_like(to_play) if self.frame == "root" else -to_play % P
            egos = torch.stack([root, mover.expand_as(root)], 1)
            features = self.trunk(boards, self.condition(rest, egos, mover, P), egos)
            own, judged = features[:, 1], features[:, :1]
        else:
            features = self.trunk(boards, self.condition(rest, self.seats[None], mover, P), self.seats[None])
            own, judged = self._movers_own(features, to_play), features
        return self.policy(boards, own).float(), self.support.expectation(self.value(judged))

    def _root_seat(self, numbers: Tensor, to_play: Tensor) -> Tensor:
        """numbers [B, P] in the frame -> [B, 1], the root player's; to_play as seen from the root."""
        if self.frame == "root":
            return numbers[:, :1]
        return numbers.gather(1, (-to_play % self.num_players).unsqueeze(1))


@dataclass(frozen=True)
class Variant:
    """Flags that make a variant; everything else is the same."""

    ego: bool
    outcome_heads: bool


VARIANTS = {
    "baseline": Variant(ego=False, outcome_heads=False),
    "belief": Variant(ego=True, outcome_heads=True),
    "ego_only": Variant(ego=True, outcome_heads=False),
    "heads_only": Variant(ego=False, outcome_heads=True),
}


def load_model_config(name: str, variant: str = "baseline") -> ModelConfig:
    """A model of conf/model with a variant's flags, as `model=NAME +variant=VARIANT` gives it."""
    from omegaconf import OmegaConf

    conf = files("conf") / "model"
    known = sorted(path.name.removesuffix(".yaml") for path in conf.iterdir() if path.name.endswith(".yaml"))
    require(name in known, "model", f"one of {', '.join(known)}", name)
    require(variant in VARIANTS, "variant", f"one of {', '.join(VARIANTS)}", variant)
    raw = OmegaConf.create((conf / f"{name}.yaml").read_text())
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), raw))
    assert isinstance(config, ModelConfig)
    return replace(config, **asdict(VARIANTS[variant]))


def main() -> None:
    """Prints parameter counts of all models and variants."""
    import argparse

    import env

    parser = argparse.ArgumentParser(prog="python -m muzero.model.network", description="Table of parameter counts.")
    parser.add_argument("--game", default=env.games()[0], choices=env.games())
    parser.add_argument("--players", type=int, default=2)
    options = parser.parse_args()
    spec = GameSpec.of(options.game, options.players)
    parts = ("representation", "dynamics", "condition", "trunk", "policy", "value", "winner", "rank", "decoder")
    print(f"{options.game}, {options.players} players: parameters\n")
    print(f"{'model':8}{'variant':12}{'latent':>14}" + "".join(f"{part:>16}" for part in (*parts, "total")))
    for model in ("tiny", "small", "paper"):
        for variant in VARIANTS:
            network = Network(spec, load_model_config(model, variant))
            counts = [count_parameters(getattr(network, part)) for part in parts]
            latent = f"{network.config.latent} {network.latent_dim}"
            cells = (*counts, count_parameters(network))
            print(f"{model:8}{variant:12}{latent:>14}" + "".join(f"{count:>16,}" for count in cells))


def count_parameters(module: nn.Module | None) -> int:
    """Trainable numbers in a module."""
    return sum(p.numel() for p in module.parameters()) if module is not None else 0


if __name__ == "__main__":
    main()
