"""Latent probes: features, cross-validation and divergences against independent computations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import env
from experiments import latent_probes
from tests.experiments.untrained_runs import make_run, run_script


def test_probes_of_two_runs_reach_what_is_in_the_observation(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run_script("latent_probes", tmp_path, "--runs", runs["baseline0"], runs["belief0"], "--games", 6)
    names = [(row["variant"], row["representation"]) for row in found["rows"]]
    assert names == [("baseline", "latent"), ("belief", "latent"), ("belief", "conditioned")]
    assert found["ceiling"]["game_winner"] is None
    for feature in ("face_down_cards", "deck_size", "visible_sum"):
        assert found["ceiling"][feature] == pytest.approx(1)
    for row in found["rows"]:
        assert row["r2"]["face_down_cards"]["mean"] > 0.5, "it is in the observation"
        assert row["card_kl"]["mean"] > 0


def test_features_agree_with_the_cards_and_posterior_means_with_sampled_worlds() -> None:
    tables = env.make("skyjo", 3, 3, seed=1, auto_reset=False)
    tables.random_steps(40, seed=2)
    reader, rows = latent_probes.Reader(tables), np.arange(3)
    actual, expected, belief = reader.read(tables, rows)
    for row in range(3):
        state, mover = tables.inspect(row), int(tables.to_play[row])
        cards = np.array(state["boards"]).reshape(3, 12)
        up = np.array(state["face_up"]).reshape(3, 12) == 1
        down = ~up & (cards > 0)
        hidden, seen = ((cards - 3) * down).sum(1), ((cards - 3) * up).sum(1)
        total, others = hidden + seen, [seat for seat in range(3) if seat != mover]
        wanted = [down[mover].sum(), len(state["draw_pile"]), seen[mover], np.nan]
        wanted += [hidden[others].sum(), hidden[mover], total[others].mean() - total[mover]]
        assert actual[row] == pytest.approx(np.array(wanted, float), nan_ok=True)
        assert belief[row].sum() == pytest.approx(1)
    worlds = env.make("skyjo", 4000, 3, seed=1, auto_reset=False)
    worlds.copy_from(tables, np.zeros(4000, np.int64))
    worlds.determinize(int(tables.to_play[0]), 7)
    sampled, _, _ = reader.read(worlds, np.arange(4000))
    for feature in (4, 5, 6):
        error = sampled[:, feature].std() / 4000**0.5
        assert abs(sampled[:, feature].mean() - expected[0, feature]) < 4 * error + 1e-9


def test_runs_with_different_rules_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", "belief", rules={"preset": "official", "episode": "match"})
    options = ["--runs", str(runs["belief0"]), str(other), "--out", str(tmp_path)]
    assert latent_probes.main(options) == 2
    assert "other', rules: expected episode=round" in capsys.readouterr().err


def test_ridge_predicts_linear_targets_and_not_noise() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 10)) * np.arange(1, 11)
    y = np.stack([x @ np.arange(10.0) + 3, rng.normal(size=2000), np.zeros(2000)], 1)
    fold = latent_probes.folds_of(np.arange(2000) // 20, seed=0)
    linear, noise, constant = latent_probes.probe(x, y, fold).mean(0)
    assert linear > 0.9999
    assert -0.02 < noise < 0.02, "the penalty is chosen so that it does not overfit"
    assert np.isnan(constant)
    ridge = latent_probes.Ridge(x, y[:, :1])
    z = (x - x.mean(0)) / x.std(0)
    weights = np.linalg.solve(z.T @ z + 7 * np.eye(10), z.T @ (y[:, 0] - y[:, 0].mean()))
    assert ridge.predict(x, 7.0)[:, 0] == pytest.approx(z @ weights + y[:, 0].mean())


def test_all_positions_of_a_game_are_in_one_fold() -> None:
    game = np.repeat(np.arange(12), 5)
    fold = latent_probes.folds_of(game, seed=3)
    assert all(len(set(fold[game == number])) == 1 for number in range(12))
    assert set(fold) == set(range(5))
    with pytest.raises(ValueError, match="--games: expected 5 or more, one for each fold, got 4"):
        latent_probes.folds_of(np.arange(4), seed=0)


def test_the_card_probe_fits_softmax_beliefs_and_measures_divergence() -> None:
    """Beliefs that a linear softmax can express are predicted far better than by a constant."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    logits = x @ rng.normal(size=(4, 15)) * 0.5
    belief = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    belief[::10] = np.nan  # no face-down card there
    fold = latent_probes.folds_of(np.arange(3000) // 30, seed=0)
    ours, constant = latent_probes.card_probe(x, belief, fold)
    assert ours < 0.01 < 0.1 < constant
    q, p = np.array([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    assert latent_probes._divergence(q, p) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
