"""The network family: shapes, frames, symmetries, variants and switches."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import env
from muzero.config import ModelConfig
from muzero.model.encoders import EqualCards, block_order
from muzero.model.latents import Boards, PackedLinear, SlotDynamics, SlotPolicy, SlotTrunk, Support, touched_places
from muzero.model.network import ABLATIONS, VARIANTS, Network, load_model_config
from muzero.model.spec import GameSpec

KINDS = [("flat", "transformer"), ("slots", "transformer"), ("slots", "columns")]
kinds = pytest.mark.parametrize(("latent", "encoder"), KINDS)
variants = pytest.mark.parametrize("variant", VARIANTS)


def make(latent: str, encoder: str, variant: str, players: int = 3, **changes: object) -> Network:
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), latent=latent, encoder=encoder, **changes)  # type: ignore[arg-type]
    network = Network(GameSpec.of("skyjo", players), config).eval()
    for parameter in network.parameters():  # biases and LayerNorms too, so that nothing is symmetric by accident
        torch.nn.init.normal_(parameter, std=0.3)
    return network


def tables(players: int = 3, batch: int = 16) -> env.VecEnv:
    made = env.make("skyjo", batch, players, seed=3)
    for moment in range(40):
        actions = made.sample_actions(2)
        actions[np.arange(batch) * 2 < moment] = env.SKIP
        made.step(actions)
    return made


def seats(batch: int, players: int) -> Tensor:
    return torch.arange(batch) % players


@kinds
@variants
@pytest.mark.parametrize("players", [2, 3, 8])
def test_shapes(latent: str, encoder: str, variant: str, players: int) -> None:
    network, B, A = make(latent, encoder, variant, players), 16, 16
    obs = torch.from_numpy(tables(players).obs)
    hidden = network.represent(obs)
    assert hidden.shape == (B, network.latent_dim)
    action, to_play = torch.arange(B) % A, seats(B, players)
    following, reward = network.step(hidden, action, to_play % 2)
    assert following.shape == hidden.shape
    assert reward.shape == (B, players, network.config.value_bins)
    said = network.predict(following, to_play)
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
@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("players", [2, 4])
def test_every_game_has_networks(latent: str, encoder: str, variant: str, game: str, players: int) -> None:
    torch.manual_seed(0)
    spec = GameSpec.of(game, players)
    config = replace(load_model_config("tiny", variant), latent=latent, encoder=encoder)
    network, made = Network(spec, config).eval(), env.make(game, 9, players, seed=3)
    made.random_steps(12)
    hidden, outputs = network.initial(torch.from_numpy(made.obs), "maxn")
    assert outputs.shape == (9, spec.num_actions + players)
    action, to_play = torch.arange(9) % spec.num_actions, seats(9, players)
    following, outputs = network.recurrent(hidden, action, to_play % 2, to_play, "maxn")
    assert outputs.shape == (9, spec.num_actions + 2 * players)
    assert torch.isfinite(outputs).all()
    assert len(following.unique(dim=0)) == len(hidden.unique(dim=0)) == 9, "observations and actions make a difference"


@kinds
@variants
def test_search_outputs_are_the_predictions_as_numbers(latent: str, encoder: str, variant: str) -> None:
    """recurrent() leaves out what the search does not need, and says the same as step() and predict()."""
    P, network = 3, make(latent, encoder, variant)
    obs = torch.from_numpy(tables().obs)
    hidden = network.represent(obs)
    action, to_play = torch.arange(16), seats(16, P)
    shift = torch.arange(16) % 2
    following, reward = network.step(hidden, action, shift)
    said = network.predict(following, to_play)
    rewards, values = network.support.expectation(reward), network.support.expectation(said.value)
    latent_out, outputs = network.recurrent(hidden, action, shift, to_play, "maxn")
    torch.testing.assert_close(latent_out, following)
    torch.testing.assert_close(outputs, torch.cat([said.policy, values, rewards], 1), rtol=1e-4, atol=1e-5)
    # With one value it is the root player's, who sits P - to_play after the mover.
    _, single = network.recurrent(hidden, action, shift, to_play, "ego")
    root_now = torch.zeros(16, dtype=torch.int64) if network.frame == "root" else -to_play % P
    root_then = root_now if network.frame == "root" else -(to_play - shift) % P
    index = torch.arange(16)
    expected = torch.cat([said.policy, values[index, root_now, None], rewards[index, root_then, None]], 1)
    torch.testing.assert_close(single, expected, rtol=1e-4, atol=1e-5)


@kinds
@variants
def test_rows_do_not_influence_each_other(latent: str, encoder: str, variant: str) -> None:
    network = make(latent, encoder, variant)
    obs = torch.from_numpy(tables().obs)
    other = obs.clone()
    other[3] = obs[4]
    action, to_play = torch.arange(16), seats(16, 3)
    keep = torch.arange(16) != 3
    one, two = (network.recurrent(network.represent(o), action, to_play % 2, to_play, "maxn")[1] for o in (obs, other))
    assert torch.equal(one[keep], two[keep])
    assert not torch.equal(one[3], two[3])


# --------------------------------------------------------------------------------------------- symmetries


def slots_of(network: Network, hidden: Tensor) -> Tensor:
    """[B, S, D] in the order of the tokens."""
    S, D = network.spec.num_slots, network.config.slot_dim
    return hidden[:, : S * D].view(len(hidden), S, D)[:, block_order(network.spec).argsort()]


def relabel(obs: Tensor, spec: GameSpec, orders: list[list[int]]) -> Tensor:
    """The same situations with each player's slots in another order (places in other groups are left alone)."""
    board = next(g for g in spec.groups if g.slots)
    out, fields = obs.clone(), len(board.vocabulary)
    tokens = obs[:, board.offset : board.offset + board.count * fields].view(len(obs), spec.num_players, -1, fields)
    moved = tokens.clone()
    for player, order in enumerate(orders):
        for field in range(fields):
            if not board.place[field]:
                moved[:, player, :, field] = tokens[:, player, order, field]
    out[:, board.offset : board.offset + board.count * fields] = moved.view(len(obs), -1)
    return out


def random_symmetry(spec: GameSpec, rng: np.random.Generator) -> list[int]:
    """Blocks trade places, and so do the slots of each block: order[new slot] = old slot."""
    order = np.zeros(spec.blocks.size, np.int64)
    for new, old in enumerate(rng.permutation(len(spec.blocks))):
        order[spec.blocks[new]] = rng.permutation(spec.blocks[old])
    return order.tolist()  # type: ignore[no-any-return]


@variants
def test_columns_encoder_is_equivariant(variant: str) -> None:
    """Relabelled boards give relabelled slots and policies, and the same values, winner and ranks, also later on."""
    P, network = 3, make("slots", "columns", variant).double()
    spec, rng = network.spec, np.random.default_rng(5)
    obs = torch.from_numpy(tables().obs)
    for _ in range(5):
        orders = [random_symmetry(spec, rng) for _ in range(P)]
        inverse = np.argsort(orders[0])
        plain, moved = network.represent(obs), network.represent(relabel(obs, spec, orders))
        D, per = network.config.slot_dim, spec.num_slots // P
        cut = spec.num_slots * D
        slots = slots_of(network, plain).view(16, P, per, D)
        expected = torch.stack([slots[:, p, order] for p, order in enumerate(orders)], 1)
        torch.testing.assert_close(slots_of(network, moved).view(16, P, per, D), expected)
        torch.testing.assert_close(moved[:, cut:], plain[:, cut:])

        # Actions follow the mover's own slots: action 4 + old slot becomes 4 + its new place.
        rename = np.arange(16)
        rename[4:] = 4 + inverse
        zero = torch.zeros(16, dtype=torch.int64)
        policy, value = network.predict(plain, zero)[:2]
        policy_moved, value_moved = network.predict(moved, zero)[:2]
        torch.testing.assert_close(policy_moved[:, rename], policy)
        torch.testing.assert_close(value_moved, value)

        action = torch.arange(16)
        then, reward = network.step(plain, action, action % 2)
        then_moved, reward_moved = network.step(moved, torch.from_numpy(rename), action % 2)
        torch.testing.assert_close(reward_moved, reward)
        torch.testing.assert_close(network.predict(then_moved, zero).value, network.predict(then, zero).value)


def test_transformer_is_not_equivariant() -> None:
    """The test above can fail."""
    network = make("slots", "transformer", "baseline")
    obs = torch.from_numpy(tables().obs)
    moved = relabel(obs, network.spec, [random_symmetry(network.spec, np.random.default_rng(1)) for _ in range(3)])
    zero = torch.zeros(16, dtype=torch.int64)
    first, second = (network.predict(network.represent(o), zero).value for o in (obs, moved))
    assert not torch.allclose(first, second)


# ------------------------------------------------------------------------------------------- slots and frames


def test_an_action_changes_only_the_slots_it_touches() -> None:
    P, network = 3, make("slots", "columns", "baseline")
    D = network.config.slot_dim
    hidden = network.represent(torch.from_numpy(tables().obs))
    before = slots_of(network, hidden)
    action, zero = torch.arange(16), torch.zeros(16, dtype=torch.int64)
    after = slots_of(network, network.step(hidden, action, zero)[0])
    for a in range(16):
        touched = {a - 4, (a - 4 + 4) % 12, (a - 4 + 8) % 12} if a >= 4 else set()
        changed = set(torch.nonzero((before[a] != after[a]).any(-1)).flatten().tolist())
        assert changed == touched
    for shift in range(P):  # the frame turns: the board of the next mover comes first
        turned = slots_of(network, network.step(hidden, zero, zero + shift)[0]).view(16, P, 12, D)
        assert torch.equal(turned, before.view(16, P, 12, D).roll(-shift, 1))


def test_cards_move_between_the_places_that_an_action_touches() -> None:
    """At first all stay; a placed card can come from the hand, and the old one go to the pile."""
    network = make("slots", "columns", "baseline")
    dynamics, spec = network.dynamics, network.spec
    assert isinstance(dynamics, SlotDynamics)
    dynamics.stays.data[:], dynamics.moves.data[:] = 1, 0
    action = torch.arange(spec.num_actions)
    slots, D = dynamics.roles.shape[1], network.config.slot_dim
    old = torch.randn(spec.num_actions, slots, D)
    assert torch.equal(dynamics._moved(old, action), old)
    place = next(a for a, name in enumerate(env.make("skyjo", 1, 3).action_names) if name == "position 5")
    kind, roles = int(dynamics.kinds[place]), dynamics.roles[place].tolist()
    target, pile, hand = 0, slots - 2, slots - 1
    dynamics.stays.data[kind, [roles[target], roles[pile]]] = 0
    dynamics.moves.data[kind, roles[target], roles[hand]] = 1
    dynamics.moves.data[kind, roles[pile], roles[target]] = 1
    new = dynamics._moved(old, action)
    assert torch.allclose(new[place, target], old[place, hand])
    assert torch.allclose(new[place, pile], old[place, target])
    assert torch.allclose(new[place, 1:pile], old[place, 1:pile])
    others = [a for a in range(spec.num_actions) if int(dynamics.kinds[a]) != kind]
    assert torch.allclose(new[others], old[others])


def test_flat_latent_keeps_the_frame() -> None:
    network = make("flat", "transformer", "baseline")
    hidden = network.represent(torch.from_numpy(tables().obs))
    action = torch.arange(16)
    assert torch.equal(network.step(hidden, action, action * 0)[0], network.step(hidden, action, action % 3)[0])
    assert network.frame == "root"


# -------------------------------------------------------------------------------------- variants and switches


def test_variants_differ_in_their_flags_and_nothing_else() -> None:
    shapes = {}
    for variant in VARIANTS:
        network = Network(GameSpec.of("skyjo", 2), load_model_config("tiny", variant))
        shapes[variant] = {name: tuple(p.shape) for name, p in network.named_parameters()}
    ego = {"condition.ego.weight", "condition.current.weight", "condition.players.weight"}
    heads = {"winner.weight", "winner.bias", "rank.weight", "rank.bias"}
    base = set(shapes["baseline"])
    assert set(shapes["ego_only"]) == base | ego
    assert set(shapes["heads_only"]) == base | heads
    assert set(shapes["belief"]) == base | ego | heads
    value = {"value.weight", "value.bias"}  # one seat's value with ego conditioning, all seats' without
    for variant in VARIANTS:
        assert all(shapes[variant][name] == shapes["baseline"][name] for name in base - value)
    assert shapes["heads_only"]["value.bias"] == shapes["baseline"]["value.bias"]
    assert shapes["belief"]["value.bias"] == shapes["ego_only"]["value.bias"]


@kinds
def test_ego_conditioning_is_given_others_than_the_mover(latent: str, encoder: str) -> None:
    """Predictions are made for every seat, and depend on whom they are for."""
    network = make(latent, encoder, "belief")
    asked: list[tuple[Tensor, Tensor]] = []
    network.condition.register_forward_pre_hook(lambda _, given: asked.append((given[1], given[2])))
    to_play = seats(16, 3)
    hidden = network.represent(torch.from_numpy(tables().obs))
    value = network.predict(hidden, to_play).value
    network.recurrent(hidden, to_play * 0, to_play * 0, to_play, "maxn")
    for ego, current in asked:
        assert ((ego != current[:, None]).sum(1) == 2).all()
        assert (ego.sort(1).values == torch.arange(3)).all()
    assert not torch.allclose(value[:, 0], value[:, 1])


@kinds
def test_ablations(latent: str, encoder: str) -> None:
    network = make(latent, encoder, "belief")
    hidden = network.represent(torch.from_numpy(tables().obs))
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


def test_bad_switches_and_configs_are_refused() -> None:
    with pytest.raises(ValueError, match="ablation: expected one of none, no_ego, wrong_ego, zero_all, got 'half'"):
        make("slots", "columns", "belief").set_ablation("half")
    with pytest.raises(ValueError, match="ablation: expected none for a model without ego conditioning"):
        make("slots", "columns", "baseline").set_ablation("no_ego")
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
    with pytest.raises(ValueError, match="model: expected one of paper, small, tiny, got 'huge'"):
        load_model_config("huge")
    with pytest.raises(ValueError, match="variant: expected one of baseline, belief"):
        load_model_config("tiny", "nothing")


@pytest.mark.parametrize("kind", [("slots", "columns"), ("slots", "transformer"), ("flat", "transformer")])
def test_what_is_ignored_is_not_read(kind: tuple[str, str]) -> None:
    obs = torch.from_numpy(tables().obs)
    groups = {g.name: g for g in make(*kind, "baseline").spec.groups}
    counts, score, rest = groups["counts"], groups["score"], groups["global"]
    changes = {
        "counts": obs.clone(),
        "score": obs.clone(),
        "global.round": obs.clone(),
    }
    changes["counts"][:, counts.offset :] = (obs[:, counts.offset :] + 1) % 32
    changes["score"][:, score.offset + 1] = 3
    changes["global.round"][:, rest.offset + rest.fields.index("round")] = 9
    for ignore in ([], ["counts"], ["score", "global.round"], ["score.to_go", "counts", "score.owner"]):
        network = make(*kind, "baseline", ignore=ignore)
        for name, other in changes.items():
            read = name not in ignore and f"{name}.to_go" not in ignore
            assert torch.equal(network.represent(obs), network.represent(other)) != read, (ignore, name)


def test_ignoring_what_is_not_there_is_refused() -> None:
    for name in ("cards", "global.weather", "board"):
        with pytest.raises(
            ValueError, match=r"model.ignore: expected groups or fields of skyjo: .*global\.round.* got"
        ):
            make("slots", "columns", "baseline", ignore=[name])


# ------------------------------------------------------------------------------------------------- support


def test_support_by_hand() -> None:
    support = Support(-2, 2, 5)  # -2, -1, 0, 1, 2
    numbers = torch.tensor([0.25, -2.0, 2.0, 7.0, -1.5])
    expected = torch.tensor(
        [[0, 0, 0.75, 0.25, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0.5, 0.5, 0, 0, 0]]
    )
    torch.testing.assert_close(support.two_hot(numbers), expected)
    torch.testing.assert_close(support.expectation(expected.log()), numbers.clamp(-2, 2))
    wide = Support(-200, 200, 401)
    many = torch.linspace(-200, 200, 1001)
    torch.testing.assert_close(wide.two_hot(many) @ wide.bins, many, rtol=1e-5, atol=1e-4)


def test_parameter_table_prints() -> None:
    table = subprocess.run(
        [sys.executable, "-m", "muzero.model.network", "--players", "3"], capture_output=True, text=True, check=True
    ).stdout
    assert "skyjo, 3 players" in table
    for word in (*VARIANTS, "tiny", "small", "paper", "total"):
        assert word in table


def test_packed_weights_give_the_same_numbers_and_follow_changes() -> None:
    torch.manual_seed(0)
    layer, x = PackedLinear(256, 512), torch.randn(96, 3, 256)
    for _ in range(2):
        expected = torch.nn.functional.linear(x, layer.weight, layer.bias).detach()
        with torch.inference_mode():
            assert layer(x) == pytest.approx(expected, abs=1e-5)
            assert layer(x[:40]) == pytest.approx(expected[:40], abs=1e-5)
        assert layer(x).requires_grad, "and gradients flow where they are wanted"
        with torch.no_grad():
            layer.weight.mul_(2.0)


# ------------------------------------------------------------------------------------------------- fewer players


@pytest.mark.parametrize("game", env.games())
@pytest.mark.parametrize("kind", [("slots", "columns"), ("slots", "transformer"), ("flat", "transformer")])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_network_for_many_has_the_weights_of_one_for_fewer(game: str, kind: tuple[str, str], variant: str) -> None:
    config = replace(load_model_config("tiny", variant), latent=kind[0], encoder=kind[1])
    large = Network(GameSpec.of(game, 5), config)
    for players in (2, 3, 5):
        small = Network(GameSpec.of(game, players), config)
        small.load_state_dict(large.weights_for(players, dict(large.named_parameters())))
    with pytest.raises(ValueError, match="players: expected at most 5, got 6"):
        large.weights_for(6, {})


@pytest.mark.parametrize(("game", "turned"), [("skyjo", False), ("lama", True)])
def test_egos_see_their_own_hand_first_where_hands_are_hidden(game: str, turned: bool) -> None:
    """So what a hand is worth to its owner is learned once, whoever is to move."""
    network = Network(GameSpec.of(game, 3), load_model_config("tiny", "belief"))
    assert isinstance(network.trunk, SlotTrunk)
    boards, rest = network.trunk.split(torch.randn(5, network.latent_dim))
    same = rest.unsqueeze(1).expand(-1, 3, -1)
    moved = Boards(boards.slots, boards.blocks.roll(-1, 1), boards.players.roll(-1, 1))
    before, after = (network.trunk(found, same, network.seats[None]) for found in (boards, moved))
    close = torch.isclose(before[:, [1, 2, 0]], after, atol=1e-5).all(2)
    assert close.all() if turned else not close.any()
    each = network.trunk(boards, same[:, :1], torch.tensor([[2]] * 5))
    assert torch.isclose(each[:, 0], before[:, 2], atol=1e-5).all(), "by row, as by column"


def test_a_smaller_table_gets_the_parts_of_the_same_seats_and_tokens() -> None:
    """Marks each part of the larger network by what it is for, and looks where the marks end up."""
    large, small = make("slots", "columns", "heads_only", 4), make("slots", "columns", "heads_only", 2)
    N, V, c = large.config.value_bins, large.config.player_dim, large.config
    marked = {name: p.detach().clone() for name, p in large.named_parameters()}
    marked["value.bias"] = torch.arange(4).repeat_interleave(N).float()  # the seat
    marked["rank.bias"] = torch.arange(4)[:, None].mul(10).add(torch.arange(4)).flatten().float()  # seat, rank
    names = [("player", seat) for seat in range(4) for _ in range(V)]
    names += [("rest", i) for i in range(len(large.spec.shared_cards) * c.slot_dim + c.global_dim)]
    marked["dynamics.rest_in.weight"][0] = torch.arange(len(names)).float()
    makes = [("rest", 0)] * c.global_dim + [("slots", 0)] * c.slot_hidden
    makes += [(kind, seat) for kind, size in (("player", V), ("reward", N)) for seat in range(4) for _ in range(size)]
    marked["dynamics.consequences.bias"] = torch.arange(len(makes)).float()
    got = large.weights_for(2, marked)
    assert got["value.bias"].view(2, N).T.tolist() == [[0.0, 1.0]] * N
    assert got["rank.bias"].tolist() == [0.0, 1.0, 10.0, 11.0]
    inputs = [names[int(mark)] for mark in got["dynamics.rest_in.weight"][0]]
    assert inputs == [name for name in names if name[0] == "rest" or name[1] < 2]
    outputs = [makes[int(mark)] for mark in got["dynamics.consequences.bias"]]
    assert outputs == [name for name in makes if name[1] < 2]
    assert {name: p.shape for name, p in got.items()} == {name: p.shape for name, p in small.named_parameters()}
    marked_place = make("flat", "transformer", "baseline", 4)
    tokens = [(g.name, t) for g in marked_place.spec.groups for t in range(g.count)]
    weights = {name: p.detach().clone() for name, p in marked_place.named_parameters()}
    weights["representation.position"][0, :, 0] = torch.arange(len(tokens)).float()
    kept = marked_place.weights_for(3, weights)["representation.position"][0, :, 0]
    assert [tokens[int(mark)] for mark in kept] == [
        (g.name, t) for g in make("flat", "transformer", "baseline", 3).spec.groups for t in range(g.count)
    ]


def test_slots_do_not_say_whose_they_are() -> None:
    """The frame turns with the mover, and slots that nobody touches only trade places: they must stay true."""
    network = make("slots", "columns", "baseline")
    obs = torch.from_numpy(tables().obs)
    group = next(g for g in network.spec.groups if g.slots)
    other = obs.clone()
    owner = group.offset + group.fields.index("owner")
    other[:, owner : group.offset + group.count * len(group.fields) : len(group.fields)] = 0
    assert not torch.equal(obs, other)
    assert torch.equal(network.represent(obs), network.represent(other))
    assert network.decoder is not None
    assert network.decoder.vocabulary == [3, 16]  # visibility and value, neither position nor owner


def test_players_trade_places_as_the_turn_passes() -> None:
    """The same players seen from another seat have the same vectors, in another order; and so imagines the dynamics."""
    network = make("slots", "columns", "belief").double()
    spec, V = network.spec, network.config.player_dim
    start = spec.num_slots * network.config.slot_dim
    obs = torch.from_numpy(tables().obs)
    turned = obs.clone()
    for g in (g for g in spec.groups if g.per_player):
        here = slice(g.offset, g.offset + g.count * len(g.fields))
        tokens = obs[:, here].view(len(obs), 3, -1, len(g.fields)).roll(-1, 1)
        owners = obs[:, here].view(len(obs), 3, -1, len(g.fields))[..., g.seat.index(True)]
        tokens[..., g.seat.index(True)] = owners  # counted from the mover, so they stay
        turned[:, here] = tokens.flatten(1)
    assert not torch.equal(obs, turned)
    one, other = (network.represent(o)[:, start : start + 3 * V].view(-1, 3, V) for o in (obs, turned))
    assert torch.allclose(one.roll(-1, 1), other)
    network.dynamics.consequences.weight.data[:] = 0
    network.dynamics.consequences.bias.data[:] = 0  # nothing happens
    network.dynamics.player_norm.weight.data[:] = 1
    network.dynamics.player_norm.bias.data[:] = 0
    network.representation.player[-1].weight.data[:] = 1
    network.representation.player[-1].bias.data[:] = 0
    latent, action = network.represent(obs), torch.zeros(len(obs), dtype=torch.int64)
    after = network.step(latent, action, action + 1)[0][:, start : start + 3 * V].view(-1, 3, V)
    assert torch.allclose(after, latent[:, start : start + 3 * V].view(-1, 3, V).roll(-1, 1), atol=1e-3)


def test_cards_that_nobody_owns_are_slots_of_the_latent() -> None:
    """The discard pile's top and the card in hand are embedded as the cards in slots are, after all of these."""
    network = make("slots", "columns", "baseline")
    spec, D = network.spec, network.config.slot_dim
    assert [(g.name, g.fields[f]) for g, f in spec.shared_cards] == [("discard", "top"), ("decision", "hand")]
    (pile, top), (decision, hand) = spec.shared_cards
    obs = torch.from_numpy(tables().obs)[:1].clone()
    vectors = []
    for card in (4, 4, 9, 16):  # the last one is a card that is not to be seen
        obs[:, decision.offset + hand] = card
        obs[:, pile.offset + top] = min(card, 15)
        start = spec.num_slots * D + spec.num_players * network.config.player_dim
        vectors.append(network.represent(obs)[0, start : start + 2 * D].view(2, D))
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.isclose(vectors[0], vectors[2]).all(1).any()
    obs[:, decision.offset + hand] = 0
    unseen = network.represent(obs)[0, start + D : start + 2 * D]
    assert torch.equal(unseen, vectors[3][1])
    assert GameSpec.of("skipbo", 2).shared_cards == ()


@pytest.mark.parametrize("kind", ["flat transformer", "slots transformer", "slots columns"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_outlook_is_what_a_search_begins_with(variant: str, kind: str) -> None:
    latent, encoder = kind.split()
    config = replace(load_model_config("tiny", variant), latent=latent, encoder=encoder)
    network = Network(GameSpec.of("skyjo", 3), config).eval()
    tables = env.make("skyjo", 8, 3, seed=1)
    with torch.no_grad():
        hidden, values = network.values_of_observation(torch.from_numpy(tables.obs))
        expected, outputs = network.initial(torch.from_numpy(tables.obs), "maxn")
    torch.testing.assert_close(hidden, expected)
    torch.testing.assert_close(values, outputs[:, -3:])


@pytest.mark.parametrize("game", ["skyjo", "lama", "skipbo"])
def test_dynamics_are_told_of_the_blocks_that_an_action_touches(game: str) -> None:
    spec = GameSpec.of(game, 2)
    network = Network(spec, load_model_config("tiny", "belief")).eval()
    tables = env.make(game, spec.num_actions, 2, seed=1)
    told: list[torch.Tensor] = []
    network.dynamics.register_forward_pre_hook(lambda module, given: told.append(given[3]))
    with torch.no_grad():
        hidden = network.represent(torch.from_numpy(tables.obs))
        network.step(hidden, torch.arange(spec.num_actions), torch.zeros(spec.num_actions, dtype=torch.int64))
        blocks = network.trunk.split(hidden)[0].blocks.flatten(1, 2)  # (A, P blocks, M)
    places = np.argsort(block_order(spec))
    for action, slots in enumerate(spec.action_slots):
        touched = sorted({int(places[slot]) // spec.blocks.shape[1] for slot in slots if slot >= 0})
        torch.testing.assert_close(told[0][action], blocks[action, touched].sum(0))
    assert told[0].abs().sum() > 0


def test_a_policy_can_tell_pairs_of_slots() -> None:
    """Skip-Bo: whether a card fits depends on it and on the pile, not on either alone."""
    torch.manual_seed(0)
    spec = GameSpec.of("skipbo", 2)
    network = Network(spec, load_model_config("tiny"))
    assert not Network(GameSpec.of("skyjo", 2), load_model_config("tiny")).policy.compares
    tables = env.make("skipbo", 512, 2, seed=3, auto_reset=False)
    for step in range(40):
        tables.step(np.where(tables.done, env.SKIP, tables.sample_actions(step)))
    going = ~tables.done
    obs, legal = torch.from_numpy(tables.obs[going]), torch.from_numpy(tables.legal[going]).float()
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(300):
        boards, rest = network.trunk.split(network.represent(obs))
        mover = network.seats[None, :1]
        features = network.trunk(boards, network.condition(rest, mover, network.seats[:1], 2), mover)[:, 0]
        loss = F.binary_cross_entropy_with_logits(network.policy(boards, features), legal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


@torch.no_grad()
@pytest.mark.parametrize(("game", "players"), [("skipbo", 2), ("skipbo", 3), ("lama", 4)])
def test_pairs_of_slots_count_once_for_every_action_that_touches_both(game: str, players: int) -> None:
    spec = GameSpec.of(game, players)
    policy = Network(spec, load_model_config("tiny")).policy
    assert isinstance(policy, SlotPolicy)
    slots = torch.randn(3, spec.num_slots, policy.slot.in_features)
    blocks = torch.randn(3, players, len(spec.blocks), policy.block.in_features)
    boards, features = Boards(slots, blocks, torch.empty(3, players, 0)), torch.randn(3, policy.kind.in_features)
    in_role, weight = policy.in_role(slots).unflatten(2, (spec.num_roles, -1)), policy.of_pairs.weight[0]
    alone = policy(boards, features)
    weight.normal_()
    by_pairs = policy(boards, features) - alone
    touched, roles, present = touched_places(spec)
    for action in range(spec.num_actions):
        there = [in_role[:, touched[action, k], roles[action, k]] for k in present[action].nonzero().flatten()]
        expected = sum(((one * other) @ weight for i, one in enumerate(there) for other in there[:i]), torch.zeros(3))
        torch.testing.assert_close(by_pairs[:, action], expected, rtol=1e-4, atol=1e-4)
    assert by_pairs.abs().max() > 0.01


@pytest.mark.parametrize("game", env.games())
def test_policies_begin_open_minded(game: str) -> None:
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


def test_equal_cards_are_counted() -> None:
    """Two players' boards of three rows and four columns, card codes by position; 0 is face down."""
    spec = GameSpec.of("skyjo", 2)
    obs = torch.zeros(1, spec.width, dtype=torch.int16)
    board = next(g for g in spec.groups if g.slots)
    value = board.offset + board.fields.index("value")
    cards = [5, 7, 0, 2, 5, 7, 0, 3, 9, 7, 4, 4] + [5] + [0] * 11
    obs[0, value : value + 24 * len(board.fields) : len(board.fields)] = torch.tensor(cards, dtype=torch.int16)
    group, field = spec.shared_cards[0]
    obs[0, group.offset + field] = 5  # the discard pile's; the hand is empty
    equal = EqualCards(spec)
    alike, matches = equal.in_block(obs), equal.with_shared(obs)
    assert alike[0, 0].tolist() == [[2, 2, 1], [3, 3, 3], [0, 0, 1], [1, 1, 1]]
    assert alike[0, 1].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    one_hot = {(0, 0): [0, 1, 0], (1, 0): [1, 0, 0]}
    for player in range(2):
        for column in range(4):
            expected = [*one_hot.get((player, column), [0, 0, 0]), 0, 0, 0]
            assert matches[0, player, column].tolist() == expected
