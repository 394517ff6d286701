"""The network family of this project: an encoder, a latent (flat or slots), dynamics and heads, with variants as flags.

Words (docs/map.md has the whole glossary):
  latent: vector that stands for a position in the search. The representation makes it from an observation, the
    dynamics from another latent and an action, and the heads predict policy, values and outcomes from it.
  frame: order of the seats in which numbers per player are listed. An observation is in the frame of its observer,
    whose seat comes first. A flat latent keeps the frame of the search's root through the whole search (frame "root");
    a slots latent turns with the player to move, who always comes first (frame "mover").
  shift: number of seats by which the turn moves on with an action, 0 while a player goes on.
  mover: the player to move.
  ego: the player from whose seat the network looks. With ego conditioning every prediction is for one ego: the network
    is told the ego, and predicts for each player in turn; without it, one head predicts the values of all seats.
  slot: a place that actions are aimed at and that a slots latent keeps a vector for: a position of a player's board, a
    hand card, a pile.
  block: a set of slots of one player whose order has no meaning, and which may trade places with the player's other
    blocks: a column in Skyjo.
  board: all slots of one player.
  shared card: visible card that belongs to no player, such as the top of a discard pile.
  trunk: layers between the latent and the heads.

Letters of the shapes: B batch, W integers of an observation, P players, A actions, L latent, S slots of all players,
E egos, H hidden units, N bins of the categorical values, O outcome codes of chance events, V values per output row (P,
or 1 if only the root player's).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from muzero.config import ModelConfig
from muzero.config.fields import require
from muzero.config.parts import PREFIX, import_named, import_part, split_path
from muzero.model.encoders import groups_read, make_encoder
from muzero.model.flat import FlatCardBeliefs, FlatDynamics, FlatPolicy, FlatTrunk
from muzero.model.interface import BaseNetwork, Prediction
from muzero.model.layers import EgoConditioning, SeatIndices, at_least_float32, mlp
from muzero.model.slots import SlotCardBeliefs, SlotDecoder, SlotDynamics, SlotPolicy, SlotTrunk, player_dim, rest_dim
from muzero.model.spec import GameSpec

ABLATIONS = ("none", "no_ego", "wrong_ego", "zero_all")


class Network(BaseNetwork):
    """Baseline and Belief-Aware MuZero: one network, in which `config` chooses the latent, the encoder and the variant.

    Attributes:
      representation: encoder, obs [B, W] -> latent [B, L].
      dynamics: module that computes the next latent and the reward.
      condition: LayerNorm and ego conditioning of the part of a latent that is no player's.
      trunk: layers between a latent and the heads.
      policy, value: heads of a position.
      reward: head of what the step to a position has paid, read from the position as its value is.
      outcome: head of the outcome of a chance event, read from an afterstate; None if the dynamics are told none.
      codes: encoder of learned codes, which reads the latent of the position that came; None without them.
      cards: head of the cards that the player to move cannot see; None without `config.card_beliefs`.
      points: head of the points that each seat still gets; None without `config.points`.
      winner, rank: heads of the result; None without `config.outcome_heads`.
      decoder: module that predicts what is visible in the slots; None for a flat latent and for games without slots.
      seats: [P] numbers of the seats, 0 to P - 1.
    """

    decoder: SlotDecoder | None
    seats: Tensor

    def __init__(self, spec: GameSpec, config: ModelConfig) -> None:
        super().__init__(spec, config)
        flat = config.latent == "flat"
        self.frame = "root" if flat else "mover"
        places = spec.num_slots * config.slot_dim + spec.num_players * player_dim(spec, config)
        self.latent_dim = config.latent_dim if flat else places + rest_dim(spec, config)
        self.representation = make_encoder(spec, config, groups_read(spec, config))
        self.dynamics = FlatDynamics(spec, config) if flat else SlotDynamics(spec, config)
        self.condition = EgoConditioning(config.latent_dim if flat else rest_dim(spec, config), config.ego, turns=flat)
        self.trunk: FlatTrunk | SlotTrunk = FlatTrunk(config) if flat else SlotTrunk(spec, config)
        self.policy: FlatPolicy | SlotPolicy = FlatPolicy(spec, config) if flat else SlotPolicy(spec, config)

        def head(outputs: int) -> nn.Module:
            return mlp(self.trunk.dim, config.hidden, outputs) if flat else nn.Linear(self.trunk.dim, outputs)

        P = spec.num_players
        seats = 1 if config.ego else P  # seats that the heads of numbers predict for at once
        self.value = head(config.value_bins * seats)
        self.reward = head(config.value_bins * seats)
        self.num_outcomes = spec.outcomes_told(config)
        self.outcome = head(self.num_outcomes) if self.num_outcomes > 1 else None
        self.learned_codes = config.chance == "learned"
        self.codes = mlp(self.latent_dim, config.hidden, config.codes) if self.learned_codes else None
        self.points = head(config.value_bins * seats) if config.points else None
        self.cards = make_card_beliefs(spec, config) if config.card_beliefs and self.num_outcomes > 1 else None
        self.winner = head(P) if config.outcome_heads else None
        self.rank = head(P * P) if config.outcome_heads else None
        self.decoder = SlotDecoder(spec, config) if not flat and spec.num_slots else None
        self.register_buffer("seats", torch.arange(P), persistent=False)
        self._seat_indices: dict[tuple[int, torch.device], SeatIndices] = {}

    def set_ablation(self, ablation: str) -> None:
        """Switch parts of the ego conditioning off at inference; the LayerNorm stays.

        Args:
          ablation: part to switch off: "none"; "no_ego", without the ego's embedding; "wrong_ego", the next seat's
            instead; "zero_all", without the embeddings of the ego, the mover and the number of players.
        """
        require(ablation in ABLATIONS, "ablation", f"one of {', '.join(ABLATIONS)}", ablation)
        require(
            ablation == "none" or self.config.ego, "ablation", "none for a model without ego conditioning", ablation
        )
        self.condition.ablation = ablation

    def seat_indices(self, players: int) -> SeatIndices:
        """Parts of the parameters that a network for fewer players keeps: the parts of the first seats.

        Seats are counted from a player, so the first seats mean the same at a smaller table. Parameters that have no
        part for each seat are not listed.

        Returns:
          Name of a parameter -> (dimension, indices along it that belong to the first `players` seats).
        """
        P, N = self.num_players, self.config.value_bins
        last = "2." if self.config.latent == "flat" else ""  # prefix of the name of a head's last layer
        parts: SeatIndices = {}
        if isinstance(self.cards, FlatCardBeliefs):
            parts |= {f"cards.{key}": part for key, part in self.cards.seat_indices(players).items()}
        for name in ("representation", "dynamics"):
            module = getattr(self, name)
            own: SeatIndices = module.seat_indices(players) if hasattr(module, "seat_indices") else {}
            parts |= {f"{name}.{key}": part for key, part in own.items()}
        if isinstance(self.trunk, SlotTrunk):
            parts["trunk.boards.weight"] = 1, torch.arange(self.trunk.boards.in_features // P * players)
        if self.codes is not None and isinstance(self.trunk, SlotTrunk):
            parts["codes.0.weight"] = 1, self.trunk.kept_of_latent(self.latent_dim, players)
        numbers = ["value", "reward", *(["points"] if self.points is not None else [])]
        outputs = dict.fromkeys(numbers, torch.arange(players * N)) if not self.config.ego else {}
        if self.config.outcome_heads:
            outputs["winner"] = torch.arange(players)
            outputs["rank"] = (torch.arange(players)[:, None] * P + torch.arange(players)).flatten()
        for head, index in outputs.items():
            parts |= {f"{head}.{last}{kind}": (0, index) for kind in ("weight", "bias")}
        return parts

    def weights_for(self, players: int, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Select, from weights of this network, those of the same network for fewer players; gradients flow back."""
        if players == self.num_players:
            return dict(weights)
        require(players < self.num_players, "players", f"at most {self.num_players}", players)
        device = next(iter(weights.values())).device
        key = players, device
        if key not in self._seat_indices:
            self._seat_indices[key] = {
                n: (dim, index.to(device)) for n, (dim, index) in self.seat_indices(players).items()
            }
        cut = {name: weights[name].index_select(dim, index) for name, (dim, index) in self._seat_indices[key].items()}
        return {**weights, **cut}

    def represent(self, obs: Tensor) -> Tensor:
        """See `BaseNetwork.represent`."""
        return at_least_float32(self.representation(obs))

    def predict(self, latent: Tensor, to_play: Tensor) -> Prediction:
        """See `BaseNetwork.predict`; predicts for every ego."""
        P = self.num_players
        boards, rest = self.trunk.split(latent)
        features = self.trunk(
            boards, self.condition(rest, self.seats[None], self._mover_seat(to_play), P), self.seats[None]
        )  # features (B, E, H)
        own = self._features_of_mover(features, to_play)
        winner = rank = None
        if self.winner is not None and self.rank is not None:
            winner = self.winner(features)
            rank = self.rank(features).unflatten(-1, (P, P))
        value, reward = (head(features).reshape(len(latent), P, -1) for head in (self.value, self.reward))
        outcome = None if self.outcome is None else self.outcome(own)
        points = None if self.points is None else self.points(features).reshape(len(latent), P, -1)
        cards = None if self.cards is None else self.cards(boards, own)
        return Prediction(self.policy(boards, own), value, winner, rank, reward, outcome, points, cards)

    def values_of_observation(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """See `BaseNetwork.values_of_observation`; leaves the policy out."""
        latent = self.represent(obs)
        boards, rest = self.trunk.split(latent)
        conditioned = self.condition(rest, self.seats[None], self.seats[:1], self.num_players)
        features = self.trunk(boards, conditioned, self.seats[None])
        return latent, self.support.expectation(self.value(features).reshape(len(obs), self.num_players, -1))

    def _mover_seat(self, to_play: Tensor) -> Tensor:
        """Seat of the player to move in the frame of the latents, [B], or [1] where it is the first seat everywhere."""
        return to_play if self.frame == "root" else self.seats[:1]

    def _features_of_mover(self, features: Tensor, to_play: Tensor) -> Tensor:
        """features [B, E, H] of every ego -> features of the player to move [B, H]"""
        if self.frame == "root" and features.shape[1] > 1:
            return features[torch.arange(len(features), device=features.device), to_play]
        return features.unbind(1)[0]

    def outcome_codes(self, latent: Tensor) -> Tensor:
        """See `BaseNetwork.outcome_codes`."""
        assert self.codes is not None
        return self.codes(latent)  # type: ignore[no-any-return]

    def reconstruction_loss(self, latent: Tensor, obs: Tensor) -> Tensor:
        """latent [B, L], obs [B, W] of the players to move -> cross entropy [B] of what is visible in the slots"""
        assert self.decoder is not None
        assert isinstance(self.trunk, SlotTrunk)
        return self.decoder(self.trunk.split(latent)[0], obs)  # type: ignore[no-any-return]

    def step(self, latent: Tensor, action: Tensor, shift: Tensor, outcome: Tensor) -> Tensor:
        """See `BaseNetwork.step`."""
        return at_least_float32(self.dynamics(latent, action, shift, outcome, self.trunk.touched(latent, action)))

    def evaluate(self, latent: Tensor, to_play: Tensor, backup: str, root: bool) -> Tensor:
        """See `BaseNetwork.evaluate`; computes nothing that the search does not need."""
        P, rows, mover = self.num_players, len(latent), self._mover_seat(to_play)
        boards, rest = self.trunk.split(latent)
        only_root = backup == "ego"
        if not self.config.ego:
            egos = mover[:, None]
        elif only_root:  # the root's player, whose value is wanted, and the mover, whose policy is
            first = torch.zeros_like(to_play) if self.frame == "root" else -to_play % P
            egos = torch.stack([first, mover.expand_as(first)], 1)
        else:
            egos = self.seats[None]
        features = self.trunk(boards, self.condition(rest, egos, mover, P), egos)  # (B, E, H)
        if self.config.ego and only_root:
            own, judged = features[:, 1], features[:, :1]
        else:
            own, judged = self._features_of_mover(features, to_play), features
        heads = [self.value] if root else [self.value, self.reward]
        N = len(self.support.bins)
        if only_root and not self.config.ego and self.frame == "root":  # the root's player has the first seat
            logits = [head(judged, outputs=N) for head in heads]
        else:
            logits = [head(judged) for head in heads]
        numbers = [self.support.expectation(each.view(rows, -1, N)) for each in logits]
        if only_root and not self.config.ego and self.frame != "root":
            numbers = [self.of_root_player(number, to_play) for number in numbers]
        outcome = [] if root or self.outcome is None else [self.outcome(own).float()]
        return torch.cat([self.policy(boards, own).float(), *outcome, *numbers], 1)


def make_card_beliefs(spec: GameSpec, config: ModelConfig) -> FlatCardBeliefs | SlotCardBeliefs:
    """Make the head of hidden cards for a kind of latent."""
    return FlatCardBeliefs(spec, config) if config.latent == "flat" else SlotCardBeliefs(spec, config)


NetworkFactory = Callable[[GameSpec, ModelConfig], BaseNetwork]

NETWORKS: dict[str, NetworkFactory] = {"muzero": Network}
"""Kinds of networks by name; `register_network` adds to them."""


def register_network(kind: str, factory: NetworkFactory) -> None:
    """Add a kind of network for `make_network` and `model.network`.

    Every process that makes such networks must register them, so the call belongs into a module that all of them
    import. `python:MODULE:CLASS` needs no registration.

    Args:
      kind: name of the kind, not used before.
      factory: subclass of `BaseNetwork`, or a function that makes a network.
    """
    require(kind not in NETWORKS, "kind of network", f"a new name beside {', '.join(NETWORKS)}", kind)
    NETWORKS[kind] = factory


def make_network(spec: GameSpec, config: ModelConfig, kind: str = "") -> BaseNetwork:
    """Make a network for a game.

    Args:
      spec: description of the game.
      config: settings of the model.
      kind: registered name or import path of the kind of network; by default as the configuration says.
    """
    key, name = ("kind of network", kind) if kind else ("model.network", config.network)
    if name.startswith(PREFIX):
        made = import_part(key, name)(spec, replace(config, network=name))
        require(isinstance(made, BaseNetwork), key, "a subclass of muzero.BaseNetwork", name)
        return made  # type: ignore[no-any-return]
    require(name in NETWORKS, key, f"one of {', '.join(NETWORKS)}", name)
    return NETWORKS[name](spec, replace(config, network=name))


def trust_parts(key: str, config: ModelConfig, module: str) -> None:
    """Refuse parts of one's own that a checkpoint names, unless the user has named their module.

    A configuration from a file must not choose which code runs.

    Args:
      key: name of the agent, for errors.
      config: settings of the checkpoint's network.
      module: module that the user trusts; "" for none. It is imported, so that names it registers are known.
    """
    if module:
        import_named(f"{key}, imports", module)
    for name in ("network", "encoder"):
        part = getattr(config, name)
        if part.startswith(PREFIX):
            needed = split_path(f"{key}, model.{name}", part)[0]
            expected = f"imports={needed} among its options, for the code of its model.{name}"
            require(needed == module, f"{key}, imports", expected, module)


@torch.no_grad()
def check_parts(spec: GameSpec, config: ModelConfig) -> None:
    """Try parts of one's own on an empty observation: refuse those that fail or return other shapes than documented."""
    if config.network == "muzero" and config.encoder in ("transformer", "columns"):
        return
    key = "model.network" if config.network != "muzero" else "model.encoder"
    name, rows = getattr(config, key.removeprefix("model.")), 2
    try:
        network = make_network(spec, config).eval()
        latent, outputs = network.initial(torch.zeros(rows, spec.width, dtype=torch.int16), "maxn")
        zeros = torch.zeros(rows, dtype=torch.int64)
        shapes = {"latents": tuple(latent.shape), "outputs of roots": tuple(outputs.shape)}
        after, outputs = network.recurrent(latent, zeros, zeros, zeros, zeros, "maxn")
        shapes |= {"next latents": tuple(after.shape), "outputs of steps": tuple(outputs.shape)}
    except ValueError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"{key}: expected a part that can be used, got {name} ({type(error).__name__}: {reason})"
        ) from error
    A, P, L = spec.num_actions, spec.num_players, network.latent_dim
    outcomes = network.num_outcomes if network.num_outcomes > 1 else 0
    expected = {"latents": L, "outputs of roots": A + P, "next latents": L, "outputs of steps": A + outcomes + 2 * P}
    for what, width in expected.items():
        require(shapes[what] == (rows, width), f"{key}={name}, {what}", str([rows, width]), list(shapes[what]))
