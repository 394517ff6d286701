"""Sizes and variants of the model."""

from __future__ import annotations

from dataclasses import asdict, replace
from importlib.resources import files

import pytest
from omegaconf import OmegaConf

from muzero.model.network import Network
from muzero.model.presets import VARIANTS, load_model_config, main
from muzero.model.spec import GameSpec


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
    # Card beliefs come with outcomes of chance events that the dynamics are told.
    told = Network(GameSpec.of("skyjo", 2), replace(load_model_config("tiny", "belief"), chance="game"))
    expected = {name: tuple(p.shape) for name, p in told.named_parameters()}
    cards = {f"cards.{name}" for name in ("slot.weight", "slot.bias", "context.weight", "kinds.weight", "kinds.bias")}
    assert set(shapes["belief_cards"]) == set(expected) | cards
    assert all(shapes["belief_cards"][name] == shape for name, shape in expected.items())
    # One seat's value and reward with ego conditioning, all seats' without.
    value = {f"{head}.{part}" for head in ("value", "reward") for part in ("weight", "bias")}
    for variant in ("belief", "ego_only", "heads_only"):
        assert all(shapes[variant][name] == shapes["baseline"][name] for name in base - value)
    for name in value:
        assert shapes["heads_only"][name] == shapes["baseline"][name]
        assert shapes["belief"][name] == shapes["ego_only"][name]


def test_unknown_models_and_variants_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="model: expected one of paper, small, tiny, got 'huge'"):
        load_model_config("huge")
    with pytest.raises(ValueError, match="variant: expected one of baseline, belief"):
        load_model_config("tiny", "nothing")


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_have_the_flags_of_their_files_in_conf(variant: str) -> None:
    flags = OmegaConf.load(files("conf") / "variant" / f"{variant}.yaml").model
    config = load_model_config("tiny", variant)
    assert {name: flags[name] for name in asdict(VARIANTS[variant])} == asdict(VARIANTS[variant])
    for name, value in flags.items():
        assert getattr(config, name) == value, name


def test_parameter_table_lists_all_models_and_variants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["presets", "--players", "3"])
    main()
    table = capsys.readouterr().out
    assert "skyjo, 3 players" in table
    for word in (*VARIANTS, "tiny", "small", "paper", "total"):
        assert word in table
    total = sum(p.numel() for p in Network(GameSpec.of("skyjo", 3), load_model_config("tiny", "belief")).parameters())
    rows = [line.replace(",", "").split() for line in table.splitlines() if line.startswith(("tiny", "small", "paper"))]
    assert len(rows) == 3 * len(VARIANTS)
    for row in rows:
        assert sum(map(int, row[4:-1])) == int(row[-1]), "no part is left out"
    assert f"{total:,}" in next(line for line in table.splitlines() if line.startswith("tiny    belief "))
