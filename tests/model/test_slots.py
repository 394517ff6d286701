"""Slots latents: which parts an action changes, how the frame turns, what policy and trunk can tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import env
from muzero.model.encoders import block_order
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.slots import Boards, SlotDynamics, SlotPolicy, SlotTrunk, touched_places
from muzero.model.spec import GameSpec
from tests.model.helpers import played_tables, random_network, slots_of


def test_an_action_changes_only_the_slots_it_touches() -> None:
    P, network = 3, random_network("slots", "columns", "baseline")
    D = network.config.slot_dim
    hidden = network.represent(torch.from_numpy(played_tables().obs))
    before = slots_of(network, hidden)
    action, zero = torch.arange(16), torch.zeros(16, dtype=torch.int64)
    after = slots_of(network, network.step(hidden, action, zero, zero))
    for a in range(16):
        touched = {a - 4, (a - 4 + 4) % 12, (a - 4 + 8) % 12} if a >= 4 else set()
        changed = set(torch.nonzero((before[a] != after[a]).any(-1)).flatten().tolist())
        assert changed == touched
    for shift in range(P):  # the frame turns: the board of the next mover comes first
        turned = slots_of(network, network.step(hidden, zero, zero + shift, zero)).view(16, P, 12, D)
        assert torch.equal(turned, before.view(16, P, 12, D).roll(-shift, 1))


def test_dynamics_can_move_cards_between_the_slots_that_an_action_touches() -> None:
    """At first all cards stay; a placed card can come from the hand, and the old one can go to the pile."""
    network = random_network("slots", "columns", "baseline")
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


@torch.no_grad()
@pytest.mark.parametrize("variant", ["baseline", "belief"])
def test_rewards_see_all_boards(variant: str) -> None:
    """The pay of a round depends on every card on the table, also on those that the last action does not touch."""
    network, P = random_network("slots", "columns", variant), 3
    spec, D = network.spec, network.config.slot_dim
    hidden, zero = network.represent(torch.from_numpy(played_tables().obs)), torch.zeros(16, dtype=torch.int64)
    action, shift = zero + 4, zero + 1  # the first place of the mover, in the first block

    def rewards(latent: torch.Tensor) -> torch.Tensor:
        return network.predict(network.step(latent, action, shift, zero), shift).reward

    before, block = rewards(hidden), spec.blocks.shape[1]
    touched = set(touched_places(spec)[0][4].tolist())
    assert len(touched) == block
    others = [place for place in range(spec.num_slots) if place not in touched]
    assert {place // (spec.num_slots // P) for place in others} == {0, 1, 2}
    for place in others:
        other = hidden.clone()
        other[:, place * D : (place + 1) * D] += 1.0
        assert (rewards(other) - before).abs().amax((1, 2)).min() > 1e-4, place


# ---- chance ------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("latent", ["slots", "flat"])
def test_outcome_changes_the_next_latent_and_an_afterstate_does_not_know_it(latent: str) -> None:
    network = random_network(latent, "columns" if latent == "slots" else "transformer", "belief", chance="game")
    hidden = network.represent(torch.from_numpy(played_tables().obs))
    outcome, action, shift = torch.arange(16), torch.full((16,), 5), torch.ones(16, dtype=torch.int64)
    told = network.step(hidden[:1].expand(16, -1), action, shift, outcome)
    assert (torch.cdist(told, told) + 10 * torch.eye(16)).min() > 1e-2, "every outcome leads elsewhere"
    after, said = network.step(hidden, action, shift, outcome * 0), network.step(hidden, action, shift, outcome * 0 + 3)
    assert network.dynamics.outcome is not None
    network.dynamics.outcome.weight[1:] += torch.randn_like(network.dynamics.outcome.weight[1:])
    assert torch.equal(network.step(hidden, action, shift, outcome * 0), after)
    assert not torch.isclose(network.step(hidden, action, shift, outcome * 0 + 3), said).all(1).any()


@torch.no_grad()
@pytest.mark.parametrize("latent", ["slots", "flat"])
def test_without_chance_outcomes_are_ignored(latent: str) -> None:
    network = random_network(latent, "columns" if latent == "slots" else "transformer", "belief", chance="none")
    hidden = network.represent(torch.from_numpy(played_tables().obs))
    action, shift = torch.full((16,), 5), torch.ones(16, dtype=torch.int64)
    one, other = (network.step(hidden, action, shift, outcome) for outcome in (torch.arange(16), shift * 0))
    assert torch.equal(one, other)
    assert (network.num_outcomes, network.outcome, network.dynamics.outcome) == (1, None, None)
    assert network.predict(one, shift).outcome is None
    assert not any("outcome" in name for name, _ in network.named_parameters())


def test_a_game_without_chance_events_has_no_outcome_head() -> None:
    config = replace(load_model_config("tiny"), chance="game")
    assert Network(GameSpec.of("kuhn", 2), config).outcome is None
    told = {game: Network(GameSpec.of(game, 2), config).num_outcomes for game in ("skyjo", "lama", "skipbo")}
    assert told == {"skyjo": 16, "lama": 8, "skipbo": 14}


@torch.no_grad()
def test_card_shown_by_chance_can_move_to_the_touched_slot() -> None:
    """The card of the outcome is one more entry of the dynamics; it can go to another one, and nothing of it stays."""
    network = random_network("slots", "columns", "baseline", chance="game")
    dynamics = network.dynamics
    assert isinstance(dynamics, SlotDynamics)
    dynamics.stays.data[:], dynamics.moves.data[:] = 1, 0
    action = torch.arange(network.spec.num_actions)
    old = torch.randn(len(action), dynamics.roles.shape[1], network.config.slot_dim)
    assert torch.equal(dynamics._moved(old, action), old[:, :-1])
    place = 5
    kind, roles = int(dynamics.kinds[place]), dynamics.roles[place].tolist()
    dynamics.stays.data[kind, roles[0]] = 0
    dynamics.moves.data[kind, roles[0], roles[-1]] = 1
    assert torch.allclose(dynamics._moved(old, action)[place, 0], old[place, -1])


def test_player_vectors_turn_with_the_frame() -> None:
    """A player has the same vector from every seat's view, and the dynamics turn the vectors as the turn passes."""
    network = random_network("slots", "columns", "belief").double()
    spec, V = network.spec, network.config.player_dim
    start = spec.num_slots * network.config.slot_dim
    obs = torch.from_numpy(played_tables().obs)
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
    after = network.step(latent, action, action + 1, action)[:, start : start + 3 * V].view(-1, 3, V)
    assert torch.allclose(after, latent[:, start : start + 3 * V].view(-1, 3, V).roll(-1, 1), atol=1e-3)


@pytest.mark.parametrize("game", ["skyjo", "lama", "skipbo"])
def test_dynamics_get_the_sum_of_the_blocks_that_an_action_touches(game: str) -> None:
    spec = GameSpec.of(game, 2)
    network = Network(spec, load_model_config("tiny", "belief")).eval()
    tables = env.make(game, spec.num_actions, 2, seed=1)
    told: list[torch.Tensor] = []
    network.dynamics.register_forward_pre_hook(lambda module, given: told.append(given[4]))
    with torch.no_grad():
        hidden = network.represent(torch.from_numpy(tables.obs))
        zero = torch.zeros(spec.num_actions, dtype=torch.int64)
        network.step(hidden, torch.arange(spec.num_actions), zero, zero)
        blocks = network.trunk.split(hidden)[0].blocks.flatten(1, 2)  # (A, P blocks, M)
    places = np.argsort(block_order(spec))
    for action, slots in enumerate(spec.action_slots):
        touched = sorted({int(places[slot]) // spec.blocks.shape[1] for slot in slots if slot >= 0})
        torch.testing.assert_close(told[0][action], blocks[action, touched].sum(0))
    assert told[0].abs().sum() > 0


@pytest.mark.parametrize(("game", "turned"), [("skyjo", False), ("lama", True)])
def test_trunk_shows_egos_their_own_board_first_where_hands_are_hidden(game: str, turned: bool) -> None:
    """The value of a hand to its owner is then learned once, whoever is to move."""
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


@pytest.mark.slow
def test_policy_learns_legality_that_depends_on_pairs_of_slots() -> None:
    """Skip-Bo: whether a card fits depends on the card and on the pile, not on either alone."""
    torch.manual_seed(0)
    spec = GameSpec.of("skipbo", 2)
    network = Network(spec, load_model_config("tiny"))
    assert not Network(GameSpec.of("skyjo", 2), load_model_config("tiny")).policy.compares
    tables = env.make("skipbo", 256, 2, seed=3, auto_reset=False)
    for step in range(40):
        tables.step(np.where(tables.done, env.SKIP, tables.sample_actions(step)))
    going = ~tables.done
    obs, legal = torch.from_numpy(tables.obs[going]), torch.from_numpy(tables.legal[going]).float()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(150):
        boards, rest = network.trunk.split(network.represent(obs))
        mover = network.seats[None, :1]
        features = network.trunk(boards, network.condition(rest, mover, network.seats[:1], 2), mover)[:, 0]
        loss = F.binary_cross_entropy_with_logits(network.policy(boards, features), legal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05  # 0.12 without the scores of pairs


@torch.no_grad()
@pytest.mark.parametrize(("game", "players"), [("skipbo", 2), ("skipbo", 3), ("lama", 4)])
def test_policy_scores_each_pair_of_touched_slots_once(game: str, players: int) -> None:
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


# ---- boards of egos ----------------------------------------------------------------------------------------------


def lama_network(ego_boards: bool, variant: str = "belief", game: str = "lama") -> Network:
    torch.manual_seed(0)
    config = replace(load_model_config("tiny", variant), ego_boards=ego_boards)
    network = Network(GameSpec.of(game, 3), config).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network


def features_of(network: Network, turned_by: int, ego: int) -> Tensor:
    """Features of one ego for boards that are turned by some seats, the conditioned rest being the same."""
    tables = env.make(network.spec.game, 8, 3, seed=1)
    tables.random_steps(9)
    trunk = network.trunk
    assert isinstance(trunk, SlotTrunk)
    boards, rest = trunk.split(network.represent(torch.from_numpy(tables.obs)))
    size = boards.slots.shape[1] // 3
    slots = boards.slots.roll(-turned_by * size, 1)
    boards = Boards(slots, boards.blocks.roll(-turned_by, 1), boards.players.roll(-turned_by, 1))
    with torch.no_grad():
        found: Tensor = trunk(boards, rest.unsqueeze(1), torch.tensor([[ego]]))
    return found


def test_each_ego_is_shown_its_own_board_first_where_hands_are_hidden() -> None:
    """Ego 1 sees what ego 0 sees if the boards are turned by a seat; without the setting egos see the same."""
    shown, plain = lama_network(ego_boards=True), lama_network(ego_boards=False)
    for ego in (1, 2):
        torch.testing.assert_close(features_of(shown, 0, ego), features_of(shown, ego, 0))
        assert not torch.allclose(features_of(shown, 0, ego), features_of(shown, 0, 0))
        assert torch.equal(features_of(plain, 0, ego), features_of(plain, 0, 0))
    assert torch.equal(features_of(shown, 0, 0), features_of(plain, 0, 0)), "the mover's board is the first anyway"


@pytest.mark.parametrize(("variant", "game"), [("baseline", "lama"), ("belief", "skyjo")])
def test_boards_are_not_turned_without_egos_or_hidden_hands(variant: str, game: str) -> None:
    obs = torch.from_numpy(env.make(game, 8, 3, seed=1).obs)
    shown, plain = (lama_network(ego_boards, variant, game) for ego_boards in (True, False))
    with torch.no_grad():
        one, other = (n.evaluate(n.represent(obs), torch.zeros(8).long(), "maxn", root=False) for n in (shown, plain))
    assert torch.equal(one, other)
