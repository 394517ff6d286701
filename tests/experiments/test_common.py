"""experiments.common and the experiments that read runs: what they write, and figures worked out by hand."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import env
from experiments import common as studies
from experiments import head_to_head, interval_coverage, latent_probes
from muzero import stats
from muzero.config import SearchConfig
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint
from muzero.runs.files import own_draft

SHORT = {"preset": "official", "episode": "round", "max_decisions": 60}  # untrained networks dawdle


def make_run(
    path: Path,
    variant: str,
    seed: int = 0,
    players: int = 2,
    iterations: tuple[int, ...] = (2, 4),
    also: tuple[int, ...] = (),
    rules: dict[str, Any] = SHORT,
) -> Path:
    """A run directory of untrained networks; `also` are smaller numbers of players that it knows."""
    model = load_model_config("tiny", variant)
    agent = {"game": "skyjo", "players": players, "variant": variant, "model": asdict(model), "rules": rules}
    agent["player_counts"] = [*also, players]
    agent["search"] = asdict(SearchConfig(simulations=2, max_considered=2))
    for iteration in iterations:
        torch.manual_seed(100 * seed + iteration)
        network = Network(GameSpec.of("skyjo", players), model)
        weights = {name: p.detach() for name, p in network.named_parameters()}
        checkpoint.save(path, iteration, tensors={"weights": weights}, arrays={}, state={}, agent=agent)
    config = {"seed": seed, "variant": variant, "game": {"players": players, "bots": ["random", "naive"]}}
    (path / checkpoint.CONFIG).write_text(OmegaConf.to_yaml(config))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two seeds of four variants, and one for three players."""
    home = tmp_path_factory.mktemp("runs")
    found = {
        f"{variant}{seed}": make_run(home / f"{variant}{seed}", variant, seed)
        for variant in ("baseline", "belief", "ego_only", "heads_only")
        for seed in (0, 1)
    }
    others = {name: make_run(home / name, "belief", players=count) for name, count in (("three", 3), ("eight", 8))}
    return found | others


def run(name: str, out: Path, *arguments: Any) -> dict[str, Any]:
    """Runs an experiment; its three files are there, and the JSON is returned."""
    script = import_module(f"experiments.{name}")
    assert script.main(["--out", str(out), "--games", "4", *map(str, arguments)]) == 0
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (out / f"{name}.md").read_text().startswith("# ")
    result: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    return result


ONE = ("--workers", 1)

# ---- what they share -------------------------------------------------------------------------------------------------


def test_a_run_says_what_it_is(runs: dict[str, Path]) -> None:
    found = studies.Run.read(runs["belief1"])
    assert (found.variant, found.seed, found.game, found.players, found.ego) == ("belief", 1, "skyjo", 2, True)
    assert (found.bots, found.iterations) == (("random", "naive"), (2, 4))
    assert found.agent(4, simulations=None, ablation="no_ego").endswith("belief1,iteration=4,ablation=no_ego")
    assert "/" not in found.label


def test_runs_that_do_not_fit_are_refused_by_name(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected different runs, got 'the same one twice'"):
        studies.read_runs([runs["belief0"], runs["belief0"]])
    with pytest.raises(ValueError, match=r"three: expected 2 players, as .*belief0, got 3"):
        studies.same_players(studies.read_runs([runs["belief0"], runs["three"]]))
    belief = studies.Run.read(runs["belief0"])
    with pytest.raises(ValueError, match=r"belief0: expected a checkpoint of iteration 3, got 'those of \[2, 4\]'"):
        studies.iterations_of([belief], [3])
    late = studies.Run.read(make_run(tmp_path / "late", "baseline", iterations=(5,)))
    with pytest.raises(ValueError, match="expected a checkpoint of the same iteration"):
        studies.iterations_of([belief, late], None)
    assert studies.iterations_of([belief], None) == [2, 4]


def test_pooled_figures_by_hand() -> None:
    def row(wins: int, draws: int, losses: int, score: float) -> dict[str, Any]:
        figures = dict.fromkeys(("mean_score_b", "mean_turns", "mean_decisions"), 1.0)
        n, points = wins + draws + losses, wins + draws / 2
        counts = {"wins": wins, "draws": draws, "losses": losses, "games": n, "points": points, "truncated": 1}
        return {**counts, **figures, "mean_score_a": score, "players": 2}

    found = studies.pooled([row(6, 2, 2, 10.0), row(10, 0, 20, 50.0)])
    assert (found["games"], found["wins"], found["points"], found["truncated"]) == (40, 16, 17.0, 2)
    assert found["win_rate"] == 17 / 40
    assert found["wilson_low"] == stats.wilson(17, 40).low
    assert found["elo"] == stats.elo(17, 40).estimate
    assert studies.interval(found) == (found["wilson_low"], found["wilson_high"])
    deals = [{**row(2, 0, 2, 1.0), "by_deal": points} for points in ([1.0, 0.0], [1.0, 0.0])]
    assert studies.interval(studies.pooled(deals)) == (0.0, 1.0), "what both got from a deal is one observation"
    even = [{**row(2, 0, 2, 1.0), "by_deal": points} for points in ([1.0, 0.0], [0.0, 1.0])]
    alike = stats.wilson(1, 2)  # two deals that ended alike say no more than that
    assert studies.interval(studies.pooled(even)) == (alike.low, alike.high)
    assert found["mean_score_a"] == 40.0, "weighted by games"
    assert studies.pooled([row(4, 0, 0, 1.0)])["elo"] is None, "JSON has no infinity"
    mixed = [{**row(1, 0, 0, 1.0), "a": f"checkpoint:x,bf16={how}"} for how in ("on", "off")]
    with pytest.raises(ValueError, match=r"precision: expected the same .*got \['bf16=off', 'bf16=on'\]"):
        studies.pooled(mixed)
    assert studies.pooled([mixed[0], mixed[0]])["games"] == 2
    with pytest.raises(ValueError, match="players: expected the same number in all matches"):
        studies.pooled([row(1, 0, 0, 1.0), {**row(1, 0, 0, 1.0), "players": 3}])


def test_means_over_seeds_and_pairs_by_hand() -> None:
    found = studies.over_seeds([0.4, 0.5, 0.6])  # standard error 0.1 / sqrt(3), t(0.975, 2) = 4.3027
    assert found["mean"] == pytest.approx(0.5)
    assert found["high"] - 0.5 == pytest.approx(4.3027 * 0.1 / 3**0.5, abs=1e-4)
    rows = [{"pair": pair, "win_rate": rate} for pair, rate in ((["a", "b"], 0.4), (["c", "d"], 0.6))]
    assert studies.over_pairs(rows) == studies.over_seeds([0.4, 0.6])
    assert studies.over_pairs([*rows, {"pair": ["a", "d"], "win_rate": 0.8}]) == {
        "mean": pytest.approx(0.6),
        "low": None,
        "high": None,
        "n": 3,
    }
    assert studies.over_seeds([0.4]) == {"mean": 0.4, "low": None, "high": None, "n": 1}


# ---- experiments -----------------------------------------------------------------------------------------------------


def test_head_to_head_in_parts(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = ["--a", runs["belief0"], runs["belief1"], "--b", runs["baseline0"], runs["baseline1"], *ONE]
    whole = run("head_to_head", tmp_path / "whole", *pairs)
    assert [row["iteration"] for row in whole["rows"]] == [2, 4]
    assert [row["pairs"] for row in whole["rows"]] == [2, 2]
    assert [row["games"] for row in whole["rows"]] == [8, 8]
    assert whole["kinds"] == ["belief", "baseline"]
    parts = sorted((tmp_path / "whole" / "parts").glob("*.json"))
    assert len(parts) == 4

    (tmp_path / "array" / "parts").mkdir(parents=True)
    (tmp_path / "array" / "parts" / ".what-another-job-is-writing.json").write_text("{")
    own_draft(tmp_path / "array" / "parts" / "x.json").write_text("{")
    for iteration in (4, 2):
        one = run("head_to_head", tmp_path / "array", *pairs, "--iterations", iteration)
        assert [row["iteration"] for row in one["rows"]] == [iteration], "whatever other jobs have left"
    stamp = parts[0].stat().st_mtime_ns
    merged = run("head_to_head", tmp_path / "array", "--merge")
    assert merged["rows"] == whole["rows"]
    run("head_to_head", tmp_path / "whole", *pairs)
    assert parts[0].stat().st_mtime_ns == stamp, "nothing is played twice"

    everybody = run("head_to_head", tmp_path / "all", *pairs, "--all-pairs", "--iterations", 4)
    assert everybody["rows"][0]["pairs"] == 4
    assert [row["over_pairs"]["low"] for row in everybody["rows"]] == [None], "pairs that share runs are no sample"
    odd = ["--a", runs["belief0"], "--b", runs["baseline0"], runs["baseline1"], "--out", tmp_path]
    assert head_to_head.main([str(argument) for argument in odd]) == 2
    assert "--a and --b: expected as many runs" in capsys.readouterr().err


def test_crossover_by_hand() -> None:
    def line(iteration: int, rate: float) -> dict[str, float]:
        ends = {"wilson_low": rate - 0.05, "wilson_high": rate + 0.05}
        return {"iteration": iteration, "win_rate": rate, "fair_share": 0.5, **ends}

    lines = [line(100, 0.3), line(200, 0.4), line(300, 0.7), line(400, 0.48)]
    up, down = head_to_head.crossover(lines)
    assert up == {"between": [200, 300], "interpolated": 233.3, "upwards": True, "sure": True}
    assert (down["between"], down["upwards"], down["sure"]) == ([300, 400], False, False)
    assert head_to_head.crossover(lines[:2]) == []
    assert head_to_head.crossover([line(1, 0.4), line(2, 0.5), line(3, 0.4)]) == [], "it came back"
    (through,) = head_to_head.crossover([line(1, 0.4), line(2, 0.5), line(3, 0.6)])
    assert through["between"] == [1, 3]


def test_parts_that_do_not_belong_together_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("head_to_head", tmp_path, "--a", runs["belief0"], "--b", runs["baseline0"], "--iterations", 4, *ONE)
    arguments = ["--a", runs["belief1"], "--b", runs["baseline1"], "--iterations", 4, "--simulations", 3, *ONE]
    assert head_to_head.main(["--out", str(tmp_path), "--games", "4", *map(str, arguments)]) == 0
    assert head_to_head.main(["--out", str(tmp_path), "--merge"]) == 2
    assert "simulations of the parts: expected the same in all, got '3 and null'" in capsys.readouterr().err


def test_a_match_under_two_names_is_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(runs["belief0"])
    for a in (runs["belief0"], tmp_path / "link"):
        run("head_to_head", tmp_path / "out", "--a", a, "--b", runs["baseline0"], "--iterations", 4, *ONE)
    assert head_to_head.main(["--out", str(tmp_path / "out"), "--merge"]) == 2
    assert "expected every match once, got 'the same networks twice'" in capsys.readouterr().err


def test_bot_eval(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run("bot_eval", tmp_path, "--runs", runs["belief0"], runs["belief1"], runs["baseline0"], *ONE)
    assert {name: row["checkpoints"] for name, row in found["table"].items()} == {"belief": 4, "baseline": 2}
    point = found["checkpoints"][0]
    assert point["games"] == 8
    assert point["win_rate"] == pytest.approx(np.mean(list(point["by_bot"].values())))
    rates = [p["win_rate"] for p in found["checkpoints"] if p["variant"] == "belief"]
    assert found["table"]["belief"]["mean_win_rate"] == pytest.approx(np.mean(rates))
    assert found["table"]["belief"]["max_win_rate"] == max(rates)
    assert found["table"]["belief"]["last_checkpoints"]["n"] == 2


def test_ego_ablation(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run("ego_ablation", tmp_path, "--runs", runs["belief0"], runs["ego_only0"], *ONE)
    kinds = [(row["variant"], row["ablation"]) for row in found["rows"]]
    assert kinds == [(v, a) for v in ("belief", "ego_only") for a in ("no_ego", "wrong_ego", "zero_all")]
    assert all(row["iteration"] == 4 for row in found["matches"]), "the newest"
    assert all(row["b"].endswith(f"ablation={row['ablation']}") for row in found["matches"])
    script = import_module("experiments.ego_ablation")
    assert script.main(["--runs", str(runs["baseline0"]), "--out", str(tmp_path)]) == 2
    assert "expected a network with ego conditioning (belief or ego_only), got 'baseline'" in capsys.readouterr().err


def test_training_ablation(runs: dict[str, Path], tmp_path: Path) -> None:
    chosen = [path for name, path in runs.items() if name not in ("three", "eight")]
    found = run("training_ablation", tmp_path, "--runs", *chosen, *ONE)
    assert {rating["name"] for rating in found["ratings"]} == {"baseline", "belief", "ego_only", "heads_only"}
    assert (found["iteration"], found["anchor"]) == (4, "baseline")
    assert len(found["pairings"]) == 6
    assert [row["pairs"] for row in found["pairings"]] == [2] * 6, "one per seed"
    assert [row["games"] for row in found["pairings"]] == [8] * 6


def test_players(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run("players", tmp_path, "--runs", runs["three"], runs["eight"], runs["belief0"], *ONE)
    assert [(row["players"], row["games"]) for row in found["rows"]] == [(2, 8), (3, 12), (8, 16)], "whole deals"
    assert found["rows"][1]["fair_share"] == pytest.approx(1 / 3)


def test_players_of_a_run_that_mixed_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixed = make_run(tmp_path / "mixed", "belief", players=4, also=(2, 3))
    found = run("players", tmp_path / "all", "--runs", mixed, "--bots", "naive", *ONE)
    assert [(row["players"], row["games"]) for row in found["rows"]] == [(2, 4), (3, 6), (4, 4)]
    chosen = run("players", tmp_path / "chosen", "--runs", mixed, "--bots", "naive", "--players", 3, *ONE)
    assert [row["by_deal"] for row in chosen["matches"]] == [found["matches"][1]["by_deal"]]
    script = import_module("experiments.players")
    assert script.main(["--runs", str(mixed), "--players", "5", "--out", str(tmp_path)]) == 2
    assert "--players: expected some of 2, 3, 4, of which runs were trained, got 5" in capsys.readouterr().err
    assert script.main(["--runs", str(mixed), "--players", "3", "3", "--out", str(tmp_path)]) == 2
    assert "expected every match once" in capsys.readouterr().err
    two = make_run(tmp_path / "two", "belief")
    some = run("players", tmp_path / "some", "--runs", mixed, two, "--bots", "naive", "--players", 3, *ONE)
    assert [row["run"] for row in some["matches"]] == [str(mixed)], "the other run knows no such tables"


def test_what_was_played_in_some_precision_is_not_played_again(runs: dict[str, Path], tmp_path: Path) -> None:
    agent = studies.Run.read(runs["belief0"]).agent(4, simulations=100, backend="eager")
    options = argparse.Namespace(out=tmp_path, games=2, seed=0, batch=4, workers=1, runtime="local", address="")
    meeting = studies.MatchSpec("one", agent, "bot:naive", 2, {})
    (first,) = studies.play_match_specs([meeting], options)
    assert first["a"].startswith(f"{agent},bf16=o")
    stamp = (tmp_path / "parts" / "one.json").stat().st_mtime_ns
    assert studies.play_match_specs([meeting], options) == [first]
    assert (tmp_path / "parts" / "one.json").stat().st_mtime_ns == stamp


# ---- probes ----------------------------------------------------------------------------------------------------------


def test_latent_probes(runs: dict[str, Path], tmp_path: Path) -> None:
    found = run("latent_probes", tmp_path, "--runs", runs["baseline0"], runs["belief0"], "--games", 10)
    names = [(row["variant"], row["representation"]) for row in found["rows"]]
    assert names == [("baseline", "latent"), ("belief", "latent"), ("belief", "conditioned")]
    assert found["ceiling"]["game_winner"] is None
    for feature in ("face_down_cards", "deck_size", "visible_sum"):
        assert found["ceiling"][feature] == pytest.approx(1)
    for row in found["rows"]:
        assert row["r2"]["face_down_cards"]["mean"] > 0.5, "it is in the observation"
        assert row["card_kl"]["mean"] > 0


def test_features_are_what_they_say() -> None:
    """Against the cards themselves; over many worlds the posterior mean is the mean."""
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


def test_probes_of_runs_with_other_rules_are_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", "belief", rules={"preset": "official", "episode": "match"})
    options = ["--runs", str(runs["belief0"]), str(other), "--out", str(tmp_path)]
    assert latent_probes.main(options) == 2
    assert "other', rules: expected episode=round" in capsys.readouterr().err


def test_ridge_finds_what_is_linear_and_nothing_else() -> None:
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


def test_folds_keep_games_together() -> None:
    game = np.repeat(np.arange(12), 5)
    fold = latent_probes.folds_of(game, seed=3)
    assert all(len(set(fold[game == number])) == 1 for number in range(12))
    assert set(fold) == set(range(5))
    with pytest.raises(ValueError, match="--games: expected 5 or more, one for each fold, got 4"):
        latent_probes.folds_of(np.arange(4), seed=0)


def test_the_card_probe_measures_divergence() -> None:
    """Beliefs that a linear softmax can express are found; those that do not depend on x are a constant."""
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


# ---- coverage --------------------------------------------------------------------------------------------------------


def test_interval_coverage(tmp_path: Path) -> None:
    options = ["--matches", 200, "--deals", 200, "--evaluations", 5, "--evaluation-games", 20]
    found = run("interval_coverage", tmp_path, *options, "--games", 100)
    for row in found["coverage"]:
        usual = row["games"].endswith(("matches", "draws", "drawn")) and row["truth"] < 0.95
        least = 0.88 if usual else 0.8  # at large tables few deals, in lopsided matches few losses
        for name, measured in row["intervals"].items():
            assert least < measured["coverage"] <= 1, (row["games"], name)
    assert found["sample_sizes"][3] == {"rate": 0.55, "per_arm": 1562, "total": 3124, "match": 783}
    assert sum(found["equal_agents"]["inside"].values()) >= 6
    assert {row["episode"] for row in found["variance_reduction"]} == {"match", "round"}
    assert interval_coverage.EQUAL in (tmp_path / "interval_coverage.md").read_text()


@pytest.mark.slow
def test_equal_agents_are_found_equal() -> None:
    """In at least 93 of 100 evaluations of 400 games."""
    found = interval_coverage.equal_agents(100, 400, seed=0)
    assert found["inside"]["wilson"] >= 93
    assert found["inside"]["paired_bootstrap"] >= 93


def test_a_script_runs_from_anywhere(tmp_path: Path) -> None:
    """And finds the packages, not its neighbours: it has the name of a module."""
    script = Path(__file__).resolve().parents[2] / "experiments" / "players.py"
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--games" in done.stdout
