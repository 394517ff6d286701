"""Uploads of runs and results: one clean run in wandb or TensorBoard, rebuilt from files.

    python -m muzero.report upload RUN... [--to tensorboard] [--mode offline] [--project NAME]

A run directory becomes a run with its metrics.jsonl and timings.jsonl, a table of its evaluations, its figures and,
with --artifacts, its newest weights and game records. It replaces what the run itself or an earlier upload has left
there: the same command can be repeated, also after interruptions have left gaps or double lines. A JSON file of
python -m muzero.evaluate, python -m muzero.ladder or an experiment becomes a run of its own in the same project, with
its figures in the summary, the plot beside it, and tables of its rows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from muzero.config import LoggingConfig
from muzero.config.fields import require
from muzero.runs.files import read_json, read_yaml
from muzero.runs.history import History
from muzero.runs.metrics import METRICS, flatten
from muzero.runs.provenance import starts
from muzero.runs.run_directory import CONFIG
from muzero.runs.sinks import Definitions, default_run_id, group_of, start_run
from muzero.runs.tensorboard import DIRECTORY, is_installed, write_events
from muzero.runs.wandb_media import artifact_name, log_media

PLACE = "upload"  # directory in a run for wandb's files of an upload
_TEXT = 10_000  # largest list of a result that becomes a table


def upload_run(wandb: ModuleType, path: Path, options: argparse.Namespace) -> str:
    """Rebuild a run in wandb; returns where it is."""
    config = read_yaml(path / CONFIG)
    logging = {**vars(LoggingConfig()), **(config.get("logging") or {})}
    variant = str(config.get("variant", ""))
    begun = starts(path)
    run = start_run(
        wandb,
        options.mode,
        resume=None,
        **_identity(path, options, logging, job_type=logging["job_type"]),
        group=options.group or logging["group"] or group_of(path, variant),
        config={**config, **({"provenance": begun[-1]} if begun else {})},
    )
    define, rows = Definitions(), History(path)
    for row in rows.replay(path):
        define(run, row)
        run.log({**row, "_timestamp": rows.time}, step=int(row["iteration"]))
    log_media(wandb, run, path, options.artifacts)
    return _finish(run, options)


def upload_result(wandb: ModuleType, path: Path, options: argparse.Namespace) -> str:
    """Rebuild the result of a match, ladder or experiment as a run in wandb; returns where it is."""
    content = read_json(path)
    figures = {name: value for name, value in content.items() if name != "provenance"}
    kind = (
        "ladder" if "ratings" in content else "evaluate" if {"a", "b", "win_rate"} <= content.keys() else "experiment"
    )
    texts = {name: value for name, value in figures.items() if isinstance(value, str)}
    run = start_run(
        wandb,
        options.mode,
        resume=None,
        **_identity(path, options, vars(LoggingConfig()), job_type=kind),
        group=options.group or path.resolve().parent.name,
        config={**texts, "provenance": content.get("provenance")},
    )
    run.summary.update(flatten(figures))
    media: dict[str, Any] = {}
    for name, rows in figures.items():
        if isinstance(rows, list) and rows and len(rows) <= _TEXT and all(isinstance(row, Mapping) for row in rows):
            columns = sorted({key for row in rows for key, value in row.items() if not isinstance(value, list | dict)})
            media[f"tables/{name}"] = wandb.Table(
                columns=columns, data=[[row.get(key) for key in columns] for row in rows], allow_mixed_types=True
            )
    if path.with_suffix(".png").is_file():
        media[f"figures/{path.stem}"] = wandb.Image(str(path.with_suffix(".png")))
    if media:
        run.log(media)
    if options.artifacts:
        files = wandb.Artifact(artifact_name(path, "result"), type="result")
        for suffix in (".json", ".md", ".csv", ".png"):
            if path.with_suffix(suffix).is_file():
                files.add_file(str(path.with_suffix(suffix)))
        run.log_artifact(files)
    return _finish(run, options)


def _identity(path: Path, options: argparse.Namespace, logging: Mapping[str, Any], job_type: str) -> dict[str, Any]:
    """Names of a run in wandb, and an empty directory for wandb's own files."""
    home = Path(options.out) if options.out else (path if path.is_dir() else path.parent) / PLACE
    run_id = default_run_id(path)
    for old in (home / "wandb").glob(f"*-{run_id}"):
        shutil.rmtree(old)
    home.mkdir(parents=True, exist_ok=True)
    return {
        "project": options.project or logging["project"],
        "entity": options.entity or logging["entity"] or None,
        "id": run_id,
        "name": path.resolve().name,
        "tags": options.tags or logging["tags"] or None,
        "notes": logging["notes"] or None,
        "job_type": job_type,
        "dir": str(home),
    }


def _finish(run: Any, options: argparse.Namespace) -> str:
    """End a run in wandb; returns its address, or its directory if it is offline."""
    address, place = getattr(run, "url", None), str(Path(run.dir).parent)
    run.finish()
    return str(address) if address else f"{place} (`wandb sync {place}` uploads it)"


def upload(path: Path, options: argparse.Namespace) -> str:
    """Upload a run directory or a result; returns where it is."""
    is_run = path.is_dir() and (path / CONFIG).is_file()
    expected = f"a run directory with {CONFIG} and {METRICS}, or a .json file of results"
    good = (is_run and (path / METRICS).is_file()) or (path.is_file() and path.suffix == ".json")
    require(good, str(path), expected, "another kind of file" if path.exists() else "nothing")
    if options.to == "tensorboard":
        require(is_run, str(path), "a run directory with --to tensorboard", "a file of results")
        require(is_installed(), "--to", "wandb, or the package tensorboard (pip install tensorboard)", "tensorboard")
        place = Path(options.out) / path.resolve().name if options.out else path / DIRECTORY
        write_events(path, place)[0].close()
        return str(place)
    import wandb

    return upload_run(wandb, path, options) if is_run else upload_result(wandb, path, options)


def main(argv: Sequence[str]) -> int:
    """Entry point of `python -m muzero.report upload`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m muzero.report upload",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="RUN", help="run directories, or JSON files of results")
    parser.add_argument("--to", choices=("wandb", "tensorboard"), default="wandb", help="default: wandb")
    parser.add_argument("--mode", choices=("online", "offline"), default="online", help="of wandb (default: online)")
    parser.add_argument("--project", help="project in wandb (default: that of the run, or belief-muzero)")
    parser.add_argument("--entity", help="team or user in wandb")
    parser.add_argument("--group", help="group in wandb (default: study, sweep or variant; of results their directory)")
    parser.add_argument("--tags", nargs="*", help="tags in wandb (default: those of the run)")
    parser.add_argument("--artifacts", action="store_true", help="weights, game records and files of results, too")
    parser.add_argument("--out", help="directory for the files (default: upload/ or tensorboard/ in the run)")
    options = parser.parse_args(argv)
    try:
        for path in options.paths:
            print(f"{path}: {upload(path, options)}", flush=True)
    except ImportError as error:
        print(f"error: {error}: pip install wandb", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
