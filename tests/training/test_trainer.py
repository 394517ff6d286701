"""python -m muzero.train: what it refuses, and that it goes on to the same bytes whatever stops it."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_module

import env
from env.game_record import GameRecord, verify
from muzero.agents.agent_spec import AgentSpec, load_network
from muzero.config import cores
from muzero.model.network import Network, count_parameters
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint, metrics
from muzero.runs.run_directory import EXIT_REQUEUE
from muzero.search.planner import Planner
from muzero.training import trainer as train
from muzero.training.learner import Learner

TINY = [
    "preset=smoke",
    "+variant=belief",
    "selfplay.tables=4",
    "selfplay.games_per_iteration=4",
    "selfplay.pool.every=3",
    "search.simulations=2",
    "search.max_considered=2",
    "search.backend=native",
    "game.bots=[greedy_value]",
    "game.held_out_bots=[]",
    "+game.rules.episode=round",
    "evaluation.every=2",
    "evaluation.games=2",
    "evaluation.simulations=2",
    "replay.warm_up=100",
    "learner.batch=8",
    "train.iterations=6",
    "train.checkpoint_every=2",
]
WAIT = 240.0

# Processes are forked from one that has imported everything, which takes longer than most runs.
_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["muzero.train", "tests.training.test_trainer"])


@dataclass(frozen=True)
class Death:
    """When a process kills itself: after so many iterations, so many calls of a function and so many seconds more."""

    iterations: int
    during: str
    calls: int
    seconds: float

    def prepare(self) -> None:
        """In the process."""
        left = [self.iterations, self.calls]

        def watch(kind: Any, name: str, what: int) -> None:
            function = getattr(kind, name)

            def counted(*given: Any, **options: Any) -> Any:
                if what == 0 or left[0] <= 0:
                    left[what] -= 1
                if left[1] == 0:
                    threading.Timer(self.seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
                return function(*given, **options)

            setattr(kind, name, counted)

        watch(metrics.Metrics, "log", 0)
        watch(*MOMENTS[self.during], 1)


MOMENTS: dict[str, tuple[Any, str]] = {
    "starting": (checkpoint, "load_latest"),
    "playing": (Planner, "plan"),
    "learning": (Learner, "step"),
    "judging": (train, "evaluate_bots"),
    "logging": (metrics.Metrics, "log"),
    "saving": (checkpoint, "write"),
    "thinning": (checkpoint, "_let_go"),
}


def _main(log: str, where: str, argv: list[str], death: Death | None) -> None:
    """What a process does: `python -m muzero.train ARGV` in a directory, its output in a file."""
    if death:
        death.prepare()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(where)
    sys.argv = ["muzero.train", *argv]
    train.main()


class Run:
    """A training process in a directory of its own."""

    def __init__(
        self, home: Path, *argv: str, settings: list[str] = TINY, name: str = "run", death: Death | None = None
    ) -> None:
        home.mkdir(exist_ok=True)
        self.path, self._log = home / name, home / "log"
        self._log.unlink(missing_ok=True)
        directory = [] if name == "" else [f"run_dir={self.path}"]
        options = sorted((*settings, *directory, *argv), key=lambda word: not word.startswith("--"))  # those first
        given = (str(self._log), str(home), options, death)
        self.process = _fork.Process(target=_main, args=given)
        self.process.start()

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def lines(self) -> int:
        """Iterations logged."""
        file = self.path / metrics.METRICS
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def wait_until(self, true: Callable[[], bool]) -> bool:
        """Whether it became true before the process ended."""
        end = time.monotonic() + WAIT
        while self.process.is_alive() and not true():
            assert time.monotonic() < end, self.log
            time.sleep(0.01)
        return self.process.is_alive()

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> int:
        """Its exit code."""
        self.process.join(WAIT)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
        assert code is not None, self.log
        return code

    def done(self) -> Run:
        assert self.end() == 0, self.log
        return self


def result(path: Path) -> dict[str, bytes]:
    """What must not depend on how a run came about: metrics, and the last checkpoint but for its clock."""
    last = checkpoint.checkpoints(path)[-1]
    files = [path / metrics.METRICS, *(f for f in last.iterdir() if f.suffix in (".safetensors", ".npz"))]
    assert len(files) >= 5
    state = json.loads((last / checkpoint.STATE).read_text())["state"]
    assert state.pop("elapsed") > 0
    return {last.name: json.dumps(state).encode(), **{file.name: file.read_bytes() for file in files}}


def same(one: dict[str, bytes], other: dict[str, bytes]) -> bool:
    assert one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]] == []


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    return Run(tmp_path_factory.mktemp("reference")).done().path


# ---- whole runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["belief", "baseline"])
def test_smoke(variant: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [sys.executable, "-m", "muzero.train", "preset=smoke", f"+variant={variant}", f"run_dir={path}"]
    done = subprocess.run([*command, "train.iterations=2"], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    assert f"training {variant} in {path}" in done.stdout
    assert "iteration 2/2" in done.stdout
    first, last = metrics.read(path)
    outcome = variant == "belief"
    assert (first["iteration"], last["iteration"]) == (1, 2)
    unused = {"consistency"} if outcome else {"consistency", "winner", "rank"}  # whose weight is 0 in this preset
    assert {name for name, loss in last["losses"].items() if loss == 0} == unused
    config = compose_config("preset=smoke", f"+variant={variant}")
    names = [*config.game.bots, *config.game.held_out_bots]
    assert len(names) == 7
    assert list(last["evaluation"]) == names
    assert "evaluation" not in first
    assert ("calibration" in last) == outcome
    timings = metrics.read(path, metrics.TIMINGS)
    assert len(timings) == 2
    assert {"env", "tree", "network", "learner", "evaluation"} <= timings[1]["seconds"].keys()
    kept = checkpoint.load_weights(path)
    assert (kept.agent["variant"], kept.agent["players"]) == (variant, 2)
    Network(GameSpec.of("skyjo", 2), config.model).load_state_dict(kept.weights)
    assert [int(place.name) for place in checkpoint.checkpoints(path)] == [1, 2]


@pytest.mark.parametrize("game", sorted(set(env.games()) - {"skyjo"}))
def test_other_games_train(game: str, tmp_path: Path) -> None:
    """A game needs a configuration of its own and nothing else."""
    path = tmp_path / "run"
    settings = ["preset=smoke", "+variant=belief", f"game={game}", f"run_dir={path}", "train.iterations=2"]
    settings.append("replay.warm_up=50")  # whoever folds at once plays short games
    done = subprocess.run(
        [sys.executable, "-m", "muzero.train", *settings], capture_output=True, text=True, timeout=WAIT
    )
    assert done.returncode == 0, done.stderr
    config, (_, last) = compose_config(*settings[:3]), metrics.read(path)
    assert list(last["evaluation"]) == [*config.game.bots, *config.game.held_out_bots]
    assert {name for name, loss in last["losses"].items() if loss == 0} == {"consistency"}, "of no weight here"


def test_the_same_command_gives_the_same_bytes(reference: Path, tmp_path: Path) -> None:
    again = Run(tmp_path).done()
    assert same(result(reference), result(again.path))
    assert [int(place.name) for place in checkpoint.checkpoints(reference)] == [
        2,
        3,
        4,
        6,
    ]  # kept, a member, the last two
    records = metrics.read(reference)
    assert [record["iteration"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert [record["diagnostics"]["pool"] for record in records] == [0, 0, 0, 1, 1, 1]
    assert records[-1]["losses"]["total"] > 0


def test_a_run_can_mix_numbers_of_players_and_resume(tmp_path: Path) -> None:
    mixed = ["selfplay.players=[2,3]", "selfplay.tables=4", "game.training.max_decisions=200", "replay.reanalyse=0.1"]
    whole = Run(tmp_path / "whole", *mixed).done()
    parts = Run(tmp_path / "parts", *mixed, "train.iterations=4").done()
    parts = Run(tmp_path / "parts", *mixed).done()
    assert same(result(whole.path), result(parts.path))
    found = checkpoint.load(checkpoint.checkpoints(whole.path)[-1])
    assert found.agent["player_counts"] == [2, 3]
    assert all(len(found.arrays[f"replay_{players}"]["action"]) for players in (2, 3))
    for players in (2, 3):
        network, _ = load_network(AgentSpec.parse(f"policy:{whole.path}"), "skyjo", players)
        assert network.num_players == players
    with pytest.raises(ValueError, match="players: expected 4 as in this match, got 'one of 2, 3'"):
        load_network(AgentSpec.parse(f"policy:{whole.path}"), "skyjo", 4)


def test_a_checkpoint_plays_with_the_simulations_of_its_time(tmp_path: Path) -> None:
    run = Run(tmp_path, "selfplay.simulations=[[0,2],[1,3]]", "train.keep_every=1").done()
    found = [checkpoint.load_weights(place) for place in checkpoint.checkpoints(run.path)]
    assert [(kept.agent["iteration"], kept.agent["search"]["simulations"]) for kept in found][-1][1] == 3


def test_another_seed_gives_others(reference: Path, tmp_path: Path) -> None:
    other = Run(tmp_path, "seed=1", "train.iterations=1").done()
    first = (reference / metrics.METRICS).read_bytes().splitlines(keepends=True)[0]
    assert (other.path / metrics.METRICS).read_bytes() != first


def test_self_played_games_are_kept_if_wanted(reference: Path, tmp_path: Path) -> None:
    """Files that can be played again; what is learned does not depend on them, so that any run may begin to."""
    path = Run(tmp_path, "logging.replays=1").done().path
    assert same(result(path), result(reference))
    assert not (reference / "replays").exists()
    files = sorted((path / "replays").iterdir())
    assert files[0].name == "000001-0.json"
    for file in files:
        verify(GameRecord.read(file))


def test_a_finished_run_has_nothing_to_do(reference: Path) -> None:
    before = result(reference)
    again = Run(reference.parent, name=reference.name).done()
    assert "resuming belief" in again.log
    assert "nothing is left to do; a larger train.iterations=" in again.log
    assert same(before, result(reference))


# ---- what stops a run --------------------------------------------------------------------------------------------


def test_asked_to_stop_it_saves_and_goes_on_later(reference: Path, tmp_path: Path) -> None:
    for number, iteration in ((signal.SIGTERM, 1), (signal.SIGUSR1, 3)):
        run = Run(tmp_path)
        assert run.wait_until(lambda at=iteration, run=run: run.lines >= at)  # type: ignore[misc]
        run.send(number)
        assert run.end() == EXIT_REQUEUE == 75, run.log
        saved = checkpoint.checkpoints(run.path)[-1]
        assert f"{number.name}: saved" in run.log
        assert int(saved.name) == run.lines
        assert run.lines < 6
    run = Run(tmp_path).done()
    assert "resuming belief" in run.log
    assert same(result(reference), result(run.path))


def killed(home: Path, deaths: list[Death], *argv: str) -> Path:
    """A run that dies so often."""
    for death in deaths:
        run = Run(home, *argv, death=death)
        assert run.end() == -signal.SIGKILL, (death, run.log)
    return Run(home, *argv).done().path


def test_killed_again_and_again_it_ends_the_same(reference: Path, tmp_path: Path) -> None:
    deaths = [
        Death(0, "playing", 30, 0.0),
        Death(1, "learning", 3, 0.01),
        Death(1, "saving", 3, 0.0),  # half of the first checkpoint
        Death(1, "thinning", 1, 0.0),  # now there is one, of iteration 2
        Death(1, "judging", 1, 0.0),  # in iteration 4; there is one of 3, a member of the pool
        Death(0, "logging", 1, 0.0),
        Death(0, "playing", 1, 0.02),
    ]
    assert same(result(reference), result(killed(tmp_path, deaths)))


@pytest.mark.slow
def test_killed_twenty_times_it_ends_the_same(tmp_path: Path) -> None:
    """At random moments, three iterations after the start of a process on average."""
    longer, rng = "train.iterations=80", random.Random(1)
    most = {"starting": 1, "playing": 60, "learning": 4, "judging": 1, "logging": 1, "saving": 8, "thinning": 1}
    whole = Run(tmp_path / "whole", longer).done()
    deaths = []
    for _ in range(20):
        during = rng.choice(list(most))
        at = 0 if during == "starting" else rng.randrange(6)
        deaths.append(Death(at, during, rng.randint(1, most[during]), rng.uniform(0, 0.1)))
    assert len({death.during for death in deaths}) >= 6
    path = killed(tmp_path / "killed", deaths, longer)
    assert same(result(whole.path), result(path))


@pytest.mark.parametrize("file", ["weights.safetensors", "replay_2.npz"])
def test_a_damaged_checkpoint_is_passed_over(file: str, reference: Path, tmp_path: Path) -> None:
    run = Run(tmp_path, "train.iterations=4").done()
    before, newest = checkpoint.checkpoints(run.path)[-2:]
    damaged = bytearray((newest / file).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (newest / file).write_bytes(damaged)
    run = Run(tmp_path).done()
    assert str(newest / file) in run.log
    assert f"using {before} instead" in run.log
    assert same(result(reference), result(run.path))


def test_a_run_that_had_saved_nothing_says_so_and_keeps_what_was_logged(reference: Path, tmp_path: Path) -> None:
    run = Run(tmp_path, death=Death(1, "playing", 1, 0.0))
    assert run.end() == -signal.SIGKILL
    logged = (run.path / metrics.METRICS).read_bytes()
    assert logged.count(b"\n") == 1
    run = Run(tmp_path).done()
    assert f"training belief in {run.path} from the start: nothing had been saved" in run.log
    assert (run.path / "metrics.before.jsonl").read_bytes() == logged
    assert same(result(reference), result(run.path))


def test_what_could_not_begin_may_be_another_run(tmp_path: Path) -> None:
    run = Run(tmp_path, "runtime=ray", "runtime.address=127.0.0.1:1")
    assert run.end() == 2, run.log
    assert "error: runtime.address: expected a Ray cluster that can be reached, got '127.0.0.1:1'" in run.log
    Run(tmp_path, "seed=5", "train.iterations=1").done()


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    """The CPU preset, a minute or two: better than at random by then, and against its bots in training."""
    few = ["train.mode=sync", "train.iterations=16", "evaluation.every=0", "run_dir=run"]
    run = Run(tmp_path, *few, settings=["preset=cpu", "+variant=belief"], name="run").done()
    bots = [name for name in metrics.read(run.path)[-1]["diagnostics"] if name.startswith("win_rate")]
    first, last = ([record["diagnostics"].get(name, 0.0) for name in bots] for record in metrics.read(run.path)[3::12])
    assert len(bots) == 6
    assert np.mean(first) < 0.02
    assert np.mean(last) > 0.08


def test_a_run_that_diverges_stops_and_names_the_last_good_checkpoint(tmp_path: Path) -> None:
    """The first iterations only gather games; the first steps then break the network."""
    broken = ["learner.lr=1e30", "learner.warm_up_steps=0", "replay.warm_up=700", "train.checkpoint_every=1"]
    run = Run(tmp_path, *broken)
    assert run.end() == train.EXIT_DIVERGED == 3, run.log
    saved = checkpoint.checkpoints(run.path)[-1]
    assert f"last good checkpoint: {saved}" in run.log
    assert "nan" in run.log
    weights = checkpoint.load(saved).tensors["weights"]
    assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


def test_an_exploding_loss_stops_a_run(tmp_path: Path) -> None:
    run = Run(tmp_path, "learner.largest_loss=1e-3")
    assert run.end() == train.EXIT_DIVERGED, run.log
    assert "learner.largest_loss=0.001" in run.log
    assert "last good checkpoint: none" in run.log
    assert checkpoint.checkpoints(run.path) == []


def test_weights_are_kept_between_checkpoints_too(tmp_path: Path) -> None:
    """Which studies compare: whether or not a multiple of `keep_every` is one of `checkpoint_every`."""
    run = Run(tmp_path, "train.keep_every=3", "train.checkpoint_every=5", "selfplay.pool.share=0", "train.iterations=7")
    kept = [int(place.name) for place in checkpoint.checkpoints(run.done().path)]
    assert kept == [3, 6, 7]


# ---- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("learner.batch=0", "learner.batch: expected 1 or more, got 0"),
        ("selfplay.pool.share=0.9", "selfplay.pool.share: expected at most 0.7, got 0.9"),
        ("selfplay.temperature=[[5,1.0]]", "selfplay.temperature: expected"),
        ("game.bots=[nobody]", "game.bots: skyjo has no bot 'nobody'"),
        ("+game.rules.no_such_rule=1", "game.rules: rule 'no_such_rule'"),
        ("game.players=99", "game.players: expected 2 to 8, got 99"),
        ("game.held_out_bots=[nobody]", "game.held_out_bots: skyjo has no bot 'nobody'"),
        ("search.dirichlet_fraction=2", "search.dirichlet_fraction: expected 0 to 1, got 2.0"),
        ("selfplay.temperature=[1.0]", "selfplay.temperature: expected [iteration, number] pairs"),
        ("replay.megabytes=0.03", "replay.megabytes: expected at least 0.25, the room of a game of 400 decisions"),
        ("+game.pace.tdsteps=5", "Key 'tdsteps' not in 'PaceConfig'"),
        ("game.name=whist", "game.name: expected one of"),
        ("+learner.no_such_key=1", "Key 'no_such_key' not in 'LearnerConfig'"),
        ("+no_such_group.key=1", "Key 'no_such_group' not in 'Config'"),
        ("runtime.workers=2", "runtime.workers: expected 1 with runtime=local, got 2"),
        ("runtime.device=nonsense", "runtime.device: expected"),
        (
            "search.backend=cuda_graphs",
            "search.backend: expected not cuda_graphs where self-play has no GPU, got 'cuda_graphs'",
        ),
        ("search.leaves=0", "search.leaves: expected 1 or more, got 0"),
        ("game.bots=[]", "game.bots: expected at least one"),
        ("selfplay.players=[3,4]", "selfplay.players: expected game.players=2 among them, or none, got [3, 4]"),
        ("selfplay.players=[2,9]", "selfplay.players: expected 2 to 8, got 9"),
        ("selfplay.players=[2,3,4,5,6]", "selfplay.tables: expected at least 5, one per worker and number of players"),
        ("replay.keep_share=2", "replay.keep_share: expected 0 to 1, got 2"),
        ("model.ignore=[weather]", "model.ignore: expected groups or fields of skyjo"),
    ],
)
def test_impossible_values_are_refused_by_name_before_any_work(setting: str, said: str, tmp_path: Path) -> None:
    run = Run(tmp_path, setting)
    assert run.end() == train.EXIT_BAD_INPUT == 2
    assert f"error: {said}" in run.log
    assert "Traceback" not in run.log
    assert not run.path.exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("learner.no_such_key=1", "Key 'no_such_key' not in 'LearnerConfig'"),
        ("learner.batch=many", "Value 'many' of type 'str' could not be converted to Integer"),
        ("model=huge", "Could not find 'model/huge'"),
    ],
)
def test_unknown_keys_are_refused_by_name(setting: str, said: str, tmp_path: Path) -> None:
    """By Hydra, whose exit code is 1."""
    run = Run(tmp_path, setting)
    assert run.end() == 1
    assert said in run.log
    assert "Traceback" not in run.log
    assert not run.path.exists()


def test_a_directory_of_another_configuration_is_refused(reference: Path) -> None:
    before = result(reference)
    run = Run(reference.parent, "learner.lr=0.5", "train.iterations=9", name=reference.name)
    assert run.end() == 2
    assert "holds a run with another configuration (stored != yours)\n  learner.lr: 0.001 != 0.5\n" in run.log
    assert same(before, result(reference))


def test_how_the_network_is_computed_may_change(reference: Path, tmp_path: Path) -> None:
    """A run goes on where there is another compiler or processor."""
    shutil.copytree(reference, tmp_path / "run")
    run = Run(tmp_path, "search.backend=eager", "train.iterations=7").done()
    assert "resuming" in run.log
    assert run.lines == 7


def test_the_native_step_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    run = Run(tmp_path, "model.latent=flat", "model.encoder=transformer")
    assert run.end() == train.EXIT_BAD_INPUT
    assert "error: search.backend=native: expected model.latent=slots, got flat\n" in run.log
    assert not run.path.exists()


# ---- other ways to run -------------------------------------------------------------------------------------------


def test_async_runs_and_resumes(tmp_path: Path) -> None:
    run = Run(tmp_path, "train.mode=async", "train.iterations=30")
    assert run.wait_until(lambda: run.lines >= 2)
    run.send(signal.SIGTERM)
    assert run.end() == 75, run.log
    made = run.lines
    assert 2 <= made < 30
    run = Run(tmp_path, "train.mode=async", f"train.iterations={made + 2}").done()
    records = metrics.read(run.path)
    assert [record["iteration"] for record in records] == list(range(1, made + 3))
    games = [record["diagnostics"]["games"] for record in records]
    assert all(np.diff(games) >= 4)
    steps = [record["diagnostics"]["steps"] for record in records]
    assert steps[-1] == steps[made - 1] + 2 * 4


@pytest.mark.slow
def test_a_signal_to_the_whole_group_is_heard_once(tmp_path: Path) -> None:
    """As schedulers send it."""
    command = [sys.executable, "-m", "muzero.train", *TINY, f"run_dir={tmp_path / 'run'}", "train.mode=async"]
    longer = ["selfplay.games_per_iteration=40", "train.iterations=100000"]
    with subprocess.Popen([*command, *longer], start_new_session=True) as process:
        file = tmp_path / "run" / metrics.METRICS
        while not (file.exists() and file.read_bytes()) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)  # it waits for games
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(WAIT) == 75


@pytest.mark.slow
def test_the_self_play_process_does_not_outlive_a_killed_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "muzero.train", *TINY, f"run_dir={tmp_path / 'run'}", "train.mode=async"]
    with subprocess.Popen([*command, "train.iterations=1000"], start_new_session=True) as process:
        while not (tmp_path / "run" / metrics.METRICS).exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(5.0)
        process.kill()
        process.wait(WAIT)
        time.sleep(5.0)
        try:
            with pytest.raises(ProcessLookupError):
                os.killpg(process.pid, 0)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_one_ray_worker_gives_the_bytes_of_none(reference: Path, tmp_path: Path) -> None:
    run = Run(tmp_path, "runtime=ray", "runtime.workers=1", "runtime.threads=1").done()
    assert (run.path / metrics.METRICS).read_bytes() == (reference / metrics.METRICS).read_bytes()


@pytest.mark.slow
def test_a_run_may_change_its_runtime(tmp_path: Path) -> None:
    Run(tmp_path, "train.iterations=2").done()
    Run(tmp_path, "train.iterations=3", "runtime=ray", "runtime.workers=1").done()


def test_a_run_that_ends_by_the_clock_is_evaluated_at_its_end(tmp_path: Path) -> None:
    run = Run(tmp_path, "train.iterations=1000", "train.minutes=0.05", "evaluation.every=999").done()
    records = metrics.read(run.path)
    assert 1 <= len(records) < 1000
    assert "evaluation" in records[-1]


def test_multirun_makes_a_directory_for_each(tmp_path: Path) -> None:
    Run(tmp_path, "--multirun", "seed=3,4", "train.iterations=1", "evaluation.every=0", name="").done()
    found = sorted(tmp_path.glob("runs/skyjo-belief-*"))
    assert len(found) == 2
    stored = [(path / "config.yaml").read_text().splitlines()[0] for path in found]
    assert sorted(stored) == ["seed: 3", "seed: 4"]
    assert all(len(metrics.read(path)) == 1 for path in found)


def test_a_directory_is_named_by_the_configuration(tmp_path: Path) -> None:
    names = [
        train.run_directory(compose_config(*TINY, *more))
        for more in ([], ["train.iterations=7"], ["logging.display=none"], ["seed=1"], ["learner.lr=0.5"])
    ]
    assert names[0] == names[1] == names[2]
    assert len(set(names)) == 3
    assert str(names[0]).startswith("runs/skyjo-belief-")


# ---- configurations ----------------------------------------------------------------------------------------------


def compose_config(*overrides: str) -> Any:
    with initialize_config_module("conf", version_base="1.3"):
        return train.read_config(compose("config", list(overrides)))


def test_the_paper_preset_is_the_papers() -> None:
    config = compose_config("preset=paper", "+variant=belief")
    assert (config.variant, config.model.ego, config.model.outcome) == ("belief", True, True)
    assert config.selfplay.simulations == [[0, 200], [200, 400], [500, 600]]
    assert (config.selfplay.games_per_iteration, config.train.steps, config.train.mode) == (32, 96, "sync")
    assert (config.learner.unroll, config.learner.td_steps, config.search.discount) == (8, 10, 0.997)
    assert (config.search.algorithm, config.game.training["round_reward"]) == ("puct", 0.0)
    assert (config.selfplay.pool.share, config.model.value_min, config.model.value_max) == (0.3, -200, 200)
    network = Network(GameSpec.of("skyjo", 2), config.model)
    assert count_parameters(network) == pytest.approx(18e6, rel=0.2)


@pytest.mark.parametrize("preset", ["cpu", "paper", "smoke"])
def test_presets_compose(preset: str, tmp_path: Path) -> None:
    for variant in ("baseline", "belief", "ego_only", "heads_only"):
        for runtime in ("local", "ray"):
            config = compose_config(f"preset={preset}", f"+variant={variant}", f"runtime={runtime}")
            flags = variant in ("belief", "ego_only"), variant in ("belief", "heads_only")
            assert (config.model.ego, config.model.outcome) == flags
            assert config.runtime.kind == runtime
    if preset == "paper":
        run = Run(tmp_path, "preset=paper", "+variant=belief", "--cfg=job", settings=[]).done()
        assert "latent_dim: 512" in run.log
        assert not run.path.exists()


@pytest.mark.parametrize("game", env.games())
def test_presets_fit_every_game(game: str) -> None:
    """Reading a configuration checks its rules; presets for single rounds take what the game says of these."""
    for preset in ("cpu", "paper", "smoke"):
        config = compose_config(f"game={game}", f"preset={preset}")
        assert (config.game.training == config.game.short_training) == (preset != "paper")
    changed = compose_config(f"game={game}", "preset=cpu", "game.training.max_decisions=123")
    assert changed.game.rules_for_training()["max_decisions"] == 123


def test_training_rewards_whoever_wins_matches() -> None:
    """In L.A.M.A. folding never wins a round: the strategy that folds is the best of these in matches alone."""
    game = compose_config("game=lama").game
    tables = env.make("lama", 2000, 4, game.rules_for_training(), 5, auto_reset=False)
    paid = {}
    for name in ("strategy_1", "strategy_2", "strategy_3"):
        paid[name] = 0.0
        for seat in range(4):
            tables.reset(deals=list(range(2000)))
            bots = [tables.bot(name if other == seat else "strategy_1") for other in range(4)]
            while not tables.done.all():
                going = ~tables.done
                tables.step(np.where(going, tables.bot_actions(bots, 0), env.SKIP))
                paid[name] += float(tables.rewards[going, seat].sum()) / 8000
    assert paid["strategy_3"] > paid["strategy_1"] + 0.03 > paid["strategy_2"] + 0.2


def test_a_job_uses_the_cores_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert cores() == 16
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert cores() == 4
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "64")
    assert cores() == 16


def test_the_cpu_preset_is_the_default() -> None:
    assert compose_config("+variant=belief") == compose_config("+variant=belief", "preset=cpu")
    assert compose_config("preset=cpu", "train=sync").train.mode == "sync"
