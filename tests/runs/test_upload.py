"""Uploads to wandb and TensorBoard, judged by wandb's offline files and TensorBoard's own reader."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hydra import compose, initialize_config_module
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from muzero.matches.ladder import main as ladder
from muzero.runs import dashboard, metrics
from muzero.runs.history import AXES, History
from muzero.runs.provenance import starts
from muzero.runs.sinks import Wandb, default_run_id, group_of
from muzero.runs.tensorboard import DIRECTORY, EVENTS, TensorBoard
from muzero.runs.upload import main as upload
from muzero.training.command import train
from tests.composing import compose_config
from tests.runs.records import record, timings
from tests.runs.wandb_files import OfflineRun, read_offline

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = [
    *("preset=smoke", "game=kuhn", "variant=belief", "train.iterations=3", "evaluation.every=1"),
    *("logging.display=none", "logging.records=1", "logging.tensorboard=true", "logging.tags=[night]"),
]


def trained(path: Path, *settings: str) -> None:
    """Train a run in a directory."""
    with initialize_config_module("conf", version_base="1.3"):
        assert train(compose("config", [*SETTINGS, f"run_dir={path}", *settings])) == 0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of Kuhn poker, trained by two processes' worth of calls."""
    path = tmp_path_factory.mktemp("uploads") / "run"
    trained(path, "train.iterations=2")
    trained(path)
    return path


def only(directory: Path) -> OfflineRun:
    """The one offline run below a directory, after wandb's service has ended."""
    sys.modules["wandb"].teardown()
    (found,) = read_offline(directory)
    return found


def without_media(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not isinstance(value, dict)}


def expected_rows(run: Path) -> list[dict[str, float]]:
    return list(History(run).replay(run))


@pytest.fixture(scope="module")
def uploads(run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[OfflineRun, OfflineRun]:
    """Two uploads of the run to the same directory, with files and without."""
    found, out = [], tmp_path_factory.mktemp("out")
    for more in (["--artifacts"], []):
        assert upload([str(run), "--mode", "offline", "--out", str(out), *more]) == 0
        found.append(only(out))
    return found[0], found[1]


def test_upload_rebuilds_a_run_and_a_repeated_one_gives_the_same(
    run: Path, uploads: tuple[OfflineRun, OfflineRun]
) -> None:
    one, two = uploads
    media = {name: value for name, value in one.rows[-1].items() if isinstance(value, dict)}
    assert [without_media(row) for row in one.rows] == expected_rows(run)
    assert one.steps == two.steps == [1, 2, 3]
    assert [without_media(row) for row in two.rows] == expected_rows(run)
    assert one.times[:2] == two.times[:2]
    assert one.times[0] < one.times[1]
    assert one.run.run_id == two.run.run_id == default_run_id(run)
    assert (one.run.job_type, one.run.run_group, list(one.run.tags)) == ("train", "belief", ["night"])
    assert one.config["provenance"]["commit"] == starts(run)[-1]["commit"]
    assert media["tables/opponents"]["ncols"] == 8
    assert media["tables/opponents"]["nrows"] == 3 * 4, "three evaluations of four bots"
    assert media["figures/reliability"]["_type"] == "image-file"
    assert set(one.artifacts) >= {"model", "game-records"}
    files = [entry.path for entry in one.artifacts["model"].manifest.contents]
    assert {"weights.safetensors", "state.json", "config.yaml"} <= set(files)


def test_win_rates_are_summarised_by_their_maximum_and_axes_are_defined(
    uploads: tuple[OfflineRun, OfflineRun],
) -> None:
    _, found = uploads
    best = {name for name, metric in found.metrics.items() if metric.summary.max}
    assert best == {
        "mean_win_rate",
        *(f"evaluation/{bot}/win_rate" for bot in ("equilibrium", "always_bet", "always_pass", "uniform")),
    }
    assert found.metrics["losses/*"].step_metric == "iteration"
    assert set(AXES) <= set(found.metrics)
    assert all(set(AXES) <= row.keys() for row in found.rows[:3])
    assert not {"model", "game-records"} & set(found.artifacts), "only with --artifacts"


def test_a_resumed_offline_run_continues_under_one_id_and_its_axes_go_on(tmp_path: Path) -> None:
    """A process was killed after iteration 3, and the next one resumes from the checkpoint of iteration 2."""
    run, decisions = tmp_path / "run", []
    run.mkdir()
    clock = {**timings(1.0), "iteration_seconds": 2.0, "elapsed": 60.0}
    for first, last in ((1, 3), (3, 5)):
        lines = metrics.read(run) if first > 1 else []
        offset = sum(len(json.dumps(line)) + 1 for line in lines[: first - 1])
        log = metrics.Metrics(run, offset=offset)
        sink = Wandb(run, "offline", project="p", group="g", tags=["a", "b"], notes="n", entity="e", job_type="j")
        for iteration in range(first, last + 1):
            row: dict[str, Any] = {"iteration": iteration, "losses": {"total": 1.0}}
            log.log(row, clock)
            sink.log(row, clock)
        sink.close(60)
        log.close()
        time.sleep(1.1)  # wandb names its directories by the second
    sys.modules["wandb"].teardown()
    parts = read_offline(run)
    assert len(parts) == 2
    for part in parts:
        assert (part.run.run_id, part.run.project, part.run.run_group) == (default_run_id(run), "p", "g")
        assert (list(part.run.tags), part.run.notes, part.run.entity, part.run.job_type) == (["a", "b"], "n", "e", "j")
        decisions.append([row["axes/decisions"] for row in part.rows])
    assert [part.steps for part in parts] == [[1, 2, 3], [3, 4, 5]], "steps are iterations: the second 3 is the first"
    assert decisions == [[4e6, 8e6, 12e6], [12e6, 16e6, 20e6]]


def test_results_of_a_ladder_are_a_run_in_the_same_project(tmp_path: Path) -> None:
    out = tmp_path / "field"
    agents = "agents=[bot:always_bet,bot:uniform,bot:equilibrium]"
    assert ladder([agents, "game=kuhn", "games=4", "workers=1", f"out={out}"]) == 0
    assert upload([str(out / "ladder.json"), "--mode", "offline", "--artifacts"]) == 0
    found = only(out / "upload")
    assert (found.run.job_type, found.run.run_group, found.run.project) == ("ladder", "field", "belief-muzero")
    (row,) = found.rows
    assert row["tables/pairings"]["nrows"] == 3
    assert row["tables/ratings"]["nrows"] == 3
    assert row["figures/ladder"]["_type"] == "image-file"
    assert found.summary["freedom"] == json.loads((out / "ladder.json").read_text())["freedom"]
    assert found.config["provenance"]["command"]
    assert "result" in found.artifacts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nowhere"],
            "nowhere: expected a run directory with config.yaml and metrics.jsonl, or a .json file of results",
        ),
        (["RESULT", "--to", "tensorboard"], "expected a run directory with --to tensorboard"),
    ],
)
def test_what_cannot_be_uploaded_is_refused_by_name(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert upload([word.replace("RESULT", str(tmp_path / "x.json")) for word in words]) == 2
    assert message in capsys.readouterr().err


def test_group_is_the_study_or_sweep_of_a_run(tmp_path: Path) -> None:
    run = tmp_path / "study-cpu" / "train" / "belief-s0"
    run.mkdir(parents=True)
    assert group_of(run, "belief") == "belief"
    (tmp_path / "study-cpu" / "study.json").write_text("{}")
    assert group_of(run, "belief") == "study-cpu"


def test_an_agent_of_a_sweep_names_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_RUN_ID", "abc")
    assert Wandb(tmp_path, "disabled", project="p")._options["id"] == "abc"


def test_every_parameter_of_the_sweep_is_a_setting_and_its_metric_is_logged(run: Path) -> None:
    sweep = yaml.safe_load((ROOT / "experiments" / "sweep.yaml").read_text())
    for end in (0, -1):
        given = []
        for key, choice in sweep["parameters"].items():
            values = choice.get("values") or [choice[name] for name in ("value", "min", "max") if name in choice]
            given.append(f"{key}={values[end]}")
        compose_config(*given)
    assert sweep["command"][2:] == ["-m", "${program}", "${args_no_hyphens}"]
    assert sweep["program"] == "muzero.train"
    assert sweep["metric"]["name"] in expected_rows(run)[-1]


# ---- dashboard -------------------------------------------------------------------------------------------------------


def test_every_chart_of_the_dashboard_draws_numbers_that_a_run_has(run: Path) -> None:
    known = expected_rows(run)[-1].keys()
    charts = [chart for section in dashboard.SECTIONS.values() for chart in section]
    assert {name for chart in charts for name in (*chart.metrics, chart.x)} - known == set()
    assert len({chart.title for chart in charts}) == len(charts) > 10


def test_docs_have_the_layout_of_the_dashboard(capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboard.main(["--text"]) == 0
    assert capsys.readouterr().out.strip() in (ROOT / "docs" / "dashboards.md").read_text()


# ---- TensorBoard -----------------------------------------------------------------------------------------------------


def events(path: Path) -> list[tuple[int, float, dict[str, float]]]:
    """Step, time and scalars of every event, as TensorBoard reads them."""
    found = []
    for event in EventFileLoader(str(path)).Load():
        values = {value.tag: value.tensor.float_val[0] for value in event.summary.value}
        if values:
            found.append((event.step, event.wall_time, values))
    return found


def test_tensorboard_gets_every_number_also_of_a_resumed_run(run: Path) -> None:
    found, rows = events(run / DIRECTORY / EVENTS), expected_rows(run)
    assert [step for step, _, _ in found] == [1, 2, 3]
    for (_, _, values), row in zip(found, rows, strict=True):
        assert values == pytest.approx({k: v for k, v in row.items() if k != "iteration"}, rel=1e-6)


def test_upload_to_tensorboard_gives_the_same_bytes_as_the_run_itself(run: Path, tmp_path: Path) -> None:
    assert upload([str(run), "--to", "tensorboard", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "run" / EVENTS).read_bytes() == (run / DIRECTORY / EVENTS).read_bytes()


def test_a_tensorboard_that_cannot_write_does_not_stop_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / DIRECTORY).write_text("a file where a directory should be")
    sink = TensorBoard(tmp_path, True)
    sink.log(record(1), timings(1))
    sink.close()
    assert "tensorboard is off from here on: FileExistsError" in caplog.text
    shutil.rmtree(tmp_path / "none", ignore_errors=True)
    TensorBoard(tmp_path / "none", False).log(record(1))
    assert not (tmp_path / "none").exists()
