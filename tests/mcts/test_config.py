"""Settings: each one changes the search, values out of range are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcts import Config, PhaseTable
from tests.mcts.chance_problems import ChanceProblem
from tests.mcts.worlds import EVEN, STATES, four_games, make_search, play, random_world, run

PUCT, GUMBEL = {"algorithm": "puct"}, {"algorithm": "gumbel"}
OPTIONS: list[tuple[dict[str, Any], str, Any, Any]] = [
    (PUCT, "discount", 1.0, 0.5),
    (GUMBEL, "discount", 1.0, 0.5),
    (PUCT, "simulations", 20, 21),
    (PUCT, "pb_c_init", 1.25, 5.0),
    (PUCT, "pb_c_base", 19652.0, 1e-3),
    (PUCT, "dirichlet_fraction", 0.0, 0.25),
    (PUCT | {"dirichlet_fraction": 0.5}, "dirichlet_alpha", 0.3, 3.0),
    (PUCT, "unvisited", "neutral", "lowest"),
    (PUCT, "leaves", 1, 4),
    (GUMBEL, "leaves", 1, 4),
    (PUCT | {"leaves": 4}, "virtual_loss", 1.0, 0.0),
    (GUMBEL, "max_considered", 16, 2),
    (GUMBEL, "gumbel_scale", 1.0, 0.0),
    (GUMBEL, "value_scale", 0.1, 1.0),
    (GUMBEL, "maxvisit_init", 50.0, 5.0),
    (GUMBEL, "rescale_values", True, False),
    (GUMBEL, "visit_trust", 1.0, 20.0),
    (GUMBEL, "value_visits", 0.0, 5.0),
    (PUCT, "mover_frame", True, False),
    (GUMBEL, "mover_frame", True, False),
    (PUCT, "backup", "maxn", "ego"),
    (GUMBEL, "backup", "maxn", "ego"),
    ({}, "algorithm", "puct", "gumbel"),
    (PUCT, "phase_table", PhaseTable.trivial(6, True), PhaseTable.trivial(6, False)),
]


@pytest.mark.parametrize(("settings", "name", "usual", "other"), OPTIONS)
def test_every_setting_changes_the_search(settings: dict[str, Any], name: str, usual: Any, other: Any) -> None:
    """Searches of 64 games with the same network outputs and one setting changed differ."""
    settings = {"num_players": 2, "phase_table": PhaseTable.trivial(6, turn_passes=True), **settings}
    found = []
    for value in (usual, other):
        world = random_world(18, actions=6, players=2)
        if value == "ego":
            world.reward, world.value = world.reward[:, :, 0], world.value[:, 0]
        roots = np.random.default_rng(1).integers(0, STATES, 64)
        search, results = run(world, roots, **{**settings, name: value})
        found.append((results.visits.tobytes(), results.policy.tobytes(), search.choose().tobytes()))
    assert found[0][0] != found[1][0], "visits"
    assert found[0][1] != found[1][1], "policy"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("batch", 0, "1 or more, got 0"),
        ("num_actions", 0, "1 to 64, got 0"),
        ("num_actions", 65, "1 to 64, got 65"),
        ("num_players", 0, "1 to 64, got 0"),
        ("num_players", 65, "1 to 64, got 65"),
        ("simulations", -1, "0 to 1048575, got -1"),
        ("simulations", 2**20, "0 to 1048575, got 1048576"),
        ("leaves", 0, "1 to 4096, got 0"),
        ("leaves", 5000, "1 to 4096, got 5000"),
        ("tree_threads", 0, "1 to 1024, got 0"),
        ("discount", 0.0, "more than 0, at most 1, got 0.0"),
        ("discount", -0.1, "more than 0, at most 1, got -0.1"),
        ("discount", 1.1, "more than 0, at most 1, got 1.1"),
        ("discount", np.nan, "more than 0, at most 1, got nan"),
        ("pb_c_base", 0.0, "more than 0, got 0"),
        ("pb_c_base", np.nan, "more than 0, got nan"),
        ("pb_c_base", np.inf, "more than 0, got inf"),
        ("pb_c_init", -1.0, "0 or more, got -1"),
        ("pb_c_init", np.inf, "0 or more, got inf"),
        ("dirichlet_alpha", np.inf, "more than 0, got inf"),
        ("gumbel_scale", np.inf, "0 or more, got inf"),
        ("value_scale", np.inf, "0 or more, got inf"),
        ("maxvisit_init", np.inf, "0 or more, got inf"),
        ("dirichlet_alpha", 0.0, "more than 0, got 0"),
        ("dirichlet_fraction", 1.5, "0 to 1, got 1.5"),
        ("dirichlet_fraction", np.nan, "0 to 1, got nan"),
        ("virtual_loss", -0.5, "0 to 1, got -0.5"),
        ("virtual_loss", 2.0, "0 to 1, got 2"),
        ("max_considered", 0, "1 or more, got 0"),
        ("gumbel_scale", -1.0, "0 or more, got -1"),
        ("value_scale", -1.0, "0 or more, got -1"),
        ("value_scale", np.nan, "0 or more, got nan"),
        ("maxvisit_init", -1.0, "0 or more, got -1"),
        ("visit_trust", -1.0, "0 or more, got -1"),
        ("value_visits", -1.0, "0 or more, got -1"),
        ("value_visits", np.nan, "0 or more, got nan"),
        ("chance_source", "guess", "learned, exact, uniform or cards, got 'guess'"),
        ("chance_choice", "random", "spread or prior, got 'random'"),
        ("num_outcomes", 0, "1 to 64, got 0"),
        ("num_outcomes", 65, "1 to 64, got 65"),
        ("algorithm", "uct", "gumbel or puct, got 'uct'"),
        ("backup", "max", "maxn or ego, got 'max'"),
        ("unvisited", "zero", "neutral or lowest, got 'zero'"),
    ],
)
def test_setting_out_of_range_is_refused_by_name(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected {expected}"):
        four_games(**{name: value})


@pytest.mark.parametrize(
    ("name", "values"), [("chance_source", ("learned", "exact", "uniform")), ("chance_choice", ("spread", "prior"))]
)
def test_chance_settings_change_the_search(name: str, values: tuple[str, ...]) -> None:
    found = set()
    for value in values:
        problem = ChanceProblem.random(13, batch=16, simulations=40, **{name: value})
        found.add(problem.run()[1].values.tobytes())
    assert len(found) == len(values)


def test_trust_in_values_matches_hand_computation() -> None:
    """One visit of action 0, value 1, priors 1/2, own value 0: mixed (0 + 1 * 1) / 2 = 0.5. Its q counts as
    0.5 + 0.5 * 1 / (1 + kappa), and values weigh (2 + trust * 1) * 0.5."""
    for trust, kappa in ((1.0, 0.0), (3.0, 0.0), (1.0, 1.0), (0.0, 3.0)):
        search = make_search(
            batch=1,
            num_actions=2,
            simulations=1,
            max_considered=1,
            gumbel_scale=0.0,
            rescale_values=False,
            value_scale=0.5,
            maxvisit_init=2.0,
            visit_trust=trust,
            value_visits=kappa,
        )
        play(search, [*EVEN, 0], [[*EVEN, 1, 0]])
        ahead = (2 + trust) * 0.5 * 0.5 / (1 + kappa)
        assert search.results().policy[0, 0] == pytest.approx(1 / (1 + np.exp(-ahead)), abs=1e-6)


def test_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="pb_c"):
        four_games(pb_c=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"possible": np.array([[1, 1, 1], [0, 0, 0]], bool)}, "phase table: no action is possible in phase 1"),
        ({"next_phase": np.full((2, 3), 2, np.uint8)}, "phase table: expected a phase of the table, got 2"),
        ({"turn_passes": np.ones((1, 3), bool)}, "phase table: expected .* for each of 3 actions"),
        ({"possible": np.ones((2, 4), bool)}, "phase table: expected .* for each of 3 actions"),
        ({"possible": np.ones((0, 3), bool)}, "phase table: expected 1 to 255 phases"),
        ({"chance": np.ones((1, 3), bool)}, "phase table: expected chance and pool for each of 2 phases and 3 actions"),
        ({"pool": np.zeros((2, 2), int)}, "phase table: expected chance and pool for each of 2 phases and 3 actions"),
        ({"pool": np.full((2, 3), 256)}, "phase table: expected pools from 0 to 255"),
        ({"leaves_round": np.ones((2, 3), bool)}, "phase table: expected both leaves_round and last_phase, or neither"),
        (
            {"leaves_round": np.ones((2, 3), bool), "last_phase": np.zeros((1, 3), np.uint8)},
            "phase table: expected leaves_round and last_phase for each of 2 phases and 3 actions",
        ),
        (
            {"leaves_round": np.ones((2, 3), bool), "last_phase": np.full((2, 3), 7, np.uint8)},
            "phase table: expected a phase of the table, got 7",
        ),
    ],
)
def test_impossible_phase_table_is_refused(change: dict[str, Any], message: str) -> None:
    fields = {
        "possible": np.ones((2, 3), bool),
        "next_phase": np.ones((2, 3), np.uint8),
        "turn_passes": np.ones((2, 3), bool),
    }
    four_games(phase_table=PhaseTable(**fields), num_outcomes=3)
    with pytest.raises(ValueError, match=message):
        four_games(phase_table=PhaseTable(**(fields | change)), num_outcomes=3)


def test_fields_describe_every_setting() -> None:
    known = {field.name: field for field in Config.fields()}
    assert set(known) >= {name for _, name, _, _ in OPTIONS} - {"mover_frame", "phase_table"}
    for name, field in known.items():
        assert getattr(Config(), name) == field.default
        assert field.meaning
        assert field.expected
    assert known["algorithm"].choices == ["gumbel", "puct"]
    discount = known["discount"]
    assert (discount.default, discount.low, discount.high, discount.low_excluded) == (0.997, 0.0, 1.0, True)
    assert (known["leaves"].low, known["leaves"].high, known["pb_c_base"].high) == (1.0, 4096.0, None)


def test_settings_can_be_read_and_compared_but_not_changed() -> None:
    config = Config(simulations=7, discount=0.9, algorithm="puct", rescale_values=False)
    assert (config.simulations, config.discount, config.algorithm, config.rescale_values) == (7, 0.9, "puct", False)
    assert config == Config(simulations=7, discount=0.9, algorithm="puct", rescale_values=False)
    assert config != Config()
    assert hash(Config()) == hash(Config())
    assert "simulations=7" in repr(config)
    with pytest.raises(AttributeError):
        config.simulations = 8  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("simulations", 1.5, "simulations: expected 0 to 1048575, got 1.5"),
        ("simulations", True, "simulations: expected 0 to 1048575, got True"),
        ("simulations", 2**70, "simulations: expected 0 to 1048575, got 1180591620717411303424"),
        ("discount", "half", "discount: expected more than 0, at most 1, got 'half'"),
        ("rescale_values", 1, "rescale_values: expected true or false, got 1"),
        ("algorithm", None, "algorithm: expected gumbel or puct, got None"),
    ],
)
def test_setting_of_a_wrong_type_is_refused_by_name(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**{name: value})
