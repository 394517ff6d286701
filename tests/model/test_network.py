"""The network as a whole: shapes, search outputs, ego conditioning, tables of fewer players."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import env
from muzero.config import ModelConfig
from muzero.model.network import ABLATIONS, Network
from muzero.model.presets import VARIANTS, load_model_config
from muzero.model.spec import GameSpec
from tests.model.helpers import kinds, most_players, played_tables, random_network, seats, variants


@kinds
@variants
@pytest.mark.parametrize("players", [2, 3, 8])
def test_predictions_have_the_documented_shapes(latent: str, encoder: str, variant: str, players: int) -> None:
    network, B, A = random_network(latent, encoder, variant, players), 16, 16
    obs = torch.from_numpy(played_tables(players).obs)
    hidden = network.represent(obs)
    assert hidden.shape == (B, network.latent_dim)
    action, to_play = torch.arange(B) % A, seats(B, players)
    following = network.step(hidden, action, to_play % 2, torch.zeros_like(action))
    assert following.shape == hidden.shape
    said = network.predict(following, to_play)
    assert said.reward.shape == (B, players, network.config.value_bins)
    assert said.policy.shape == (B, A)
    assert said.value.shape == (B, players, network.config.value_bins)
    egos = players if network.config.ego else 1
    if network.config.outcome_heads:
        assert said.winner is not None
        assert said.winner.shape == (B, egos, players)
        assert said.rank is not None
        assert said.rank.shape == (B, egos, players, players)
    else:
        assert said.winner is None
        assert said.rank is None


@kinds
@variants
def test_points_and_outcomes_are_predicted_where_they_are_asked_for(latent: str, encoder: str, variant: str) -> None:
    plain = random_network(latent, encoder, variant, chance="none", card_beliefs=False)
    hidden, to_play = plain.represent(torch.from_numpy(played_tables().obs)), seats(16, 3)
    said = plain.predict(hidden, to_play)
    assert (said.points, said.outcome, said.cards, plain.points) == (None, None, None, None)
    network = random_network(latent, encoder, variant, points=40.0, chance="game")
    said = network.predict(network.represent(torch.from_numpy(played_tables().obs)), to_play)
    assert said.points is not None
    assert said.points.shape == (16, 3, network.config.value_bins)
    assert (network.points_support.bins[[0, -1]] == torch.tensor([-40.0, 40.0])).all()
    assert said.outcome is not None
    assert said.outcome.shape == (16, network.spec.num_outcomes)
    assert (said.cards is None) == (variant != "belief_cards")
    assert said.cards is None or said.cards.shape == (16, network.spec.num_slots, network.spec.num_outcomes)


@kinds
@variants
@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("players", [2, 4])
def test_every_game_has_networks_with_finite_outputs(
    latent: str, encoder: str, variant: str, game: str, players: int
) -> None:
    torch.manual_seed(0)
    players = most_players(game, players)
    spec = GameSpec.of(game, players)
    config = replace(load_model_config("tiny", variant), latent=latent, encoder=encoder)
    network, made = Network(spec, config).eval(), env.make(game, 9, players, seed=3)
    made.random_steps(12)
    hidden, outputs = network.initial(torch.from_numpy(made.obs), "maxn")
    assert outputs.shape == (9, spec.num_actions + players)
    action, to_play = torch.arange(9) % spec.num_actions, seats(9, players)
    following, outputs = network.recurrent(hidden, action, to_play % 2, to_play, torch.zeros_like(action), "maxn")
    outcomes = network.num_outcomes if network.num_outcomes > 1 else 0
    assert outputs.shape == (9, spec.num_actions + outcomes + 2 * players)
    assert torch.isfinite(outputs).all()
    rows = [row.tobytes() for row in made.obs]  # small games repeat some
    steps = set(zip(rows, action.tolist(), (to_play % 2).tolist(), strict=True))
    assert len(hidden.unique(dim=0)) == len(set(rows)), "different observations have different latents"
    assert len(following.unique(dim=0)) == len(steps), "different actions lead to different latents"


@kinds
@variants
def test_search_outputs_are_the_expectations_of_the_predictions(latent: str, encoder: str, variant: str) -> None:
    """recurrent() leaves out what the search does not need, and agrees with step() and predict()."""
    P, network = 3, random_network(latent, encoder, variant)
    obs = torch.from_numpy(played_tables().obs)
    hidden = network.represent(obs)
    action, to_play = torch.arange(16), seats(16, P)
    shift = torch.arange(16) % 2
    nothing = torch.zeros_like(action)
    following = network.step(hidden, action, shift, nothing)
    said = network.predict(following, to_play)
    rewards, values = network.support.expectation(said.reward), network.support.expectation(said.value)
    latent_out, outputs = network.recurrent(hidden, action, shift, to_play, nothing, "maxn")
    torch.testing.assert_close(latent_out, following)
    logits = torch.cat([said.policy, *([] if said.outcome is None else [said.outcome])], 1)
    torch.testing.assert_close(outputs, torch.cat([logits, values, rewards], 1), rtol=1e-4, atol=1e-5)
    # With one value it is the root player's, who sits P - to_play after the mover.
    _, single = network.recurrent(hidden, action, shift, to_play, nothing, "ego")
    root_now = torch.zeros(16, dtype=torch.int64) if network.frame == "root" else -to_play % P
    index = torch.arange(16)
    expected = torch.cat([logits, values[index, root_now, None], rewards[index, root_now, None]], 1)
    torch.testing.assert_close(single, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["flat transformer", "slots transformer", "slots columns"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_values_of_observation_are_those_of_the_search_root(variant: str, kind: str) -> None:
    latent, encoder = kind.split()
    config = replace(load_model_config("tiny", variant), latent=latent, encoder=encoder)
    network = Network(GameSpec.of("skyjo", 3), config).eval()
    tables = env.make("skyjo", 8, 3, seed=1)
    with torch.no_grad():
        hidden, values = network.values_of_observation(torch.from_numpy(tables.obs))
        expected, outputs = network.initial(torch.from_numpy(tables.obs), "maxn")
    torch.testing.assert_close(hidden, expected)
    torch.testing.assert_close(values, outputs[:, -3:])


@kinds
@variants
def test_rows_do_not_influence_each_other(latent: str, encoder: str, variant: str) -> None:
    network = random_network(latent, encoder, variant)
    obs = torch.from_numpy(played_tables().obs)
    other = obs.clone()
    other[3] = obs[4]
    action, to_play = torch.arange(16), seats(16, 3)
    keep = torch.arange(16) != 3
    one, two = (
        network.recurrent(network.represent(o), action, to_play % 2, to_play, action * 0, "maxn")[1]
        for o in (obs, other)
    )
    assert torch.equal(one[keep], two[keep])
    assert not torch.equal(one[3], two[3])


@kinds
def test_predictions_are_made_for_every_ego_and_differ(latent: str, encoder: str) -> None:
    """Ego conditioning is asked for every seat, the mover's and the others'."""
    network = random_network(latent, encoder, "belief")
    asked: list[tuple[Tensor, Tensor]] = []
    network.condition.register_forward_pre_hook(lambda _, given: asked.append((given[1], given[2])))
    to_play = seats(16, 3)
    hidden = network.represent(torch.from_numpy(played_tables().obs))
    value = network.predict(hidden, to_play).value
    network.recurrent(hidden, to_play * 0, to_play * 0, to_play, to_play * 0, "maxn")
    for ego, current in asked:
        assert ((ego != current[:, None]).sum(1) == 2).all()
        assert (ego.sort(1).values == torch.arange(3)).all()
    assert not torch.allclose(value[:, 0], value[:, 1])


@kinds
def test_ablations_change_the_ego_conditioning_as_documented(latent: str, encoder: str) -> None:
    network = random_network(latent, encoder, "belief")
    hidden = network.represent(torch.from_numpy(played_tables().obs))
    to_play = seats(16, 3)
    values = {}
    for ablation in ABLATIONS:
        network.set_ablation(ablation)
        values[ablation] = network.predict(hidden, to_play).value
    # Somebody else's value is the next seat's; without egos all seats are the same; all three differ from the full.
    torch.testing.assert_close(values["wrong_ego"], values["none"].roll(-1, 1))
    for ablation in ("no_ego", "zero_all"):
        torch.testing.assert_close(values[ablation][:, 0], values[ablation][:, 1])
        assert not torch.allclose(values[ablation], values["none"])
    assert not torch.allclose(values["no_ego"], values["zero_all"])
    # The LayerNorm stays.
    _, rest = network.trunk.split(hidden)
    network.set_ablation("zero_all")
    conditioned = network.condition(rest, torch.zeros(16, 1, dtype=torch.int64), to_play, 3)
    torch.testing.assert_close(conditioned[:, 0], network.condition.norm(rest))


@pytest.mark.parametrize("game", env.games())
def test_initial_policies_are_close_to_uniform(game: str) -> None:
    players = 4 if game == "lama" else 2
    tables = env.make(game, 64, players, seed=0)
    for step in range(20):
        tables.step(tables.sample_actions(step))
    for seed in range(4):
        torch.manual_seed(seed)
        network = Network(GameSpec.of(game, players), load_model_config("tiny", "belief")).eval()
        logits = network.initial(torch.from_numpy(tables.obs), "maxn")[1][:, : tables.num_actions]
        policy = logits.masked_fill(torch.from_numpy(~tables.legal), -torch.inf).softmax(1)
        entropy = torch.special.entr(policy).sum(1).mean().item()
        assert entropy > 0.7 * np.log(tables.legal.sum(1)).mean()


def test_bad_ablations_and_configs_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ablation: expected one of none, no_ego, wrong_ego, zero_all, got 'half'"):
        random_network("slots", "columns", "belief").set_ablation("half")
    with pytest.raises(ValueError, match="ablation: expected none for a model without ego conditioning"):
        random_network("slots", "columns", "baseline").set_ablation("no_ego")
    spec = GameSpec.of("skyjo", 2)
    for change, message in (
        ({"latent": "round"}, "model.latent: expected flat or slots, got 'round'"),
        ({"encoder": "mlp"}, "model.encoder: expected transformer or columns"),
        ({"latent": "flat", "encoder": "columns"}, "model.encoder: expected transformer with model.latent=flat"),
        ({"width": 30, "heads": 4}, "model.width: expected a multiple of heads"),
        ({"value_bins": 1}, "model.value_bins: expected 2 or more"),
        ({"value_min": 3.0}, "model.value_min: expected less than 2.0"),
        ({"hidden": 0}, "model.hidden: expected 1 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            Network(spec, ModelConfig(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("kind", [("slots", "columns"), ("slots", "transformer"), ("flat", "transformer")])
@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_for_fewer_players_fit_the_smaller_network(game: str, kind: tuple[str, str], variant: str) -> None:
    config = replace(load_model_config("tiny", variant), latent=kind[0], encoder=kind[1], chance="game", points=50.0)
    most = most_players(game, 5)
    large = Network(GameSpec.of(game, most), config)
    for players in {2, min(3, most), most}:
        small = Network(GameSpec.of(game, players), config)
        small.load_state_dict(large.weights_for(players, dict(large.named_parameters())))
    with pytest.raises(ValueError, match=f"players: expected at most {most}, got {most + 1}"):
        large.weights_for(most + 1, {})


def test_weights_for_fewer_players_are_those_of_the_first_seats() -> None:
    """Each part of the larger network is marked by its seat or token, and the marks are looked up in the selection."""
    large, small = (
        random_network("slots", "columns", "heads_only", 4),
        random_network("slots", "columns", "heads_only", 2),
    )
    N, V, c = large.config.value_bins, large.config.player_dim, large.config
    marked = {name: p.detach().clone() for name, p in large.named_parameters()}
    for head in ("value", "reward"):
        marked[f"{head}.bias"] = torch.arange(4).repeat_interleave(N).float()  # the seat
    marked["rank.bias"] = torch.arange(4)[:, None].mul(10).add(torch.arange(4)).flatten().float()  # seat, rank
    names = [("player", seat) for seat in range(4) for _ in range(V)]
    names += [("rest", i) for i in range(len(large.spec.shared_cards) * c.slot_dim + c.global_dim)]
    marked["dynamics.rest_in.weight"][0] = torch.arange(len(names)).float()
    makes = [("rest", 0)] * c.global_dim + [("slots", 0)] * c.slot_hidden
    makes += [("player", seat) for seat in range(4) for _ in range(V)]
    marked["dynamics.consequences.bias"] = torch.arange(len(makes)).float()
    got = large.weights_for(2, marked)
    for head in ("value", "reward"):
        assert got[f"{head}.bias"].view(2, N).T.tolist() == [[0.0, 1.0]] * N
    assert got["rank.bias"].tolist() == [0.0, 1.0, 10.0, 11.0]
    inputs = [names[int(mark)] for mark in got["dynamics.rest_in.weight"][0]]
    assert inputs == [name for name in names if name[0] == "rest" or name[1] < 2]
    outputs = [makes[int(mark)] for mark in got["dynamics.consequences.bias"]]
    assert outputs == [name for name in makes if name[1] < 2]
    assert {name: p.shape for name, p in got.items()} == {name: p.shape for name, p in small.named_parameters()}
    marked_place = random_network("flat", "transformer", "baseline", 4)
    tokens = [(g.name, t) for g in marked_place.spec.groups for t in range(g.count)]
    weights = {name: p.detach().clone() for name, p in marked_place.named_parameters()}
    weights["representation.position"][0, :, 0] = torch.arange(len(tokens)).float()
    kept = marked_place.weights_for(3, weights)["representation.position"][0, :, 0]
    assert [tokens[int(mark)] for mark in kept] == [
        (g.name, t) for g in random_network("flat", "transformer", "baseline", 3).spec.groups for t in range(g.count)
    ]
