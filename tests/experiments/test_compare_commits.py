"""Tests of experiments/compare_commits.py: the interval of a median, the table, and refusals."""

import subprocess
import sys

import pytest

from experiments import compare_commits


def test_interval_of_a_median_is_between_order_statistics():
    # Binomial(9, 1/2): P(at most 1) = 10 / 512, so leaving out one number on each side keeps 0.961.
    assert compare_commits.median_interval([9, 1, 8, 2, 7, 3, 6, 4, 5]) == (2, 8)
    # Binomial(6, 1/2): P(0) = 1 / 64 on each side: the whole range keeps 0.969.
    assert compare_commits.median_interval([1, 2, 3, 4, 5, 6]) == (1, 6)


def test_too_few_rounds_give_no_interval():
    assert compare_commits.median_interval([1, 2, 3, 4, 5]) is None


def test_table_has_the_median_of_the_ratios_of_common_figures():
    rounds = [({"speed": s, "new": 1.0}, {"speed": 10.0, "old": 1.0}) for s in (8.0, 9.0, 12.0)]
    _, row = compare_commits.report(rounds, "")
    assert row.split() == ["speed", "9.000", "10.000", "0.900", "too", "few", "rounds"]


def test_benchmarks_of_two_trees_are_run_in_turn(tmp_path, capsys):
    trees = []
    for speed in (3, 2):
        tree = tmp_path / str(speed)
        (tree / "experiments").mkdir(parents=True)
        (tree / ".venv/bin").mkdir(parents=True)
        (tree / ".venv/bin/python").symlink_to(sys.executable)
        script = "import json, sys\nout, *rest = sys.argv[2:]\n"
        script += f"json.dump({{'speed': {speed} * float(rest[0]), 'cpu': 'name'}}, open(out, 'w'))\n"
        (tree / "experiments/bench_toy.py").write_text(script)
        trees.append(tree)
    given = ["HEAD", "bench_toy", "--rounds", "6", "--this", str(trees[0]), "--other", str(trees[1]), "--", "10"]
    assert compare_commits.main(given) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split() == ["speed", "30.000", "20.000", "1.500", "[1.500,", "1.500]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-commit", "bench_env"], "commit=no-such-commit: expected a commit of this repository"),
        (["HEAD", "bench_none", "--other", "."], "benchmark=bench_none: expected a script"),
        (["HEAD", "bench_env", "--rounds", "0", "--other", "."], "--rounds=0: expected 1 or more"),
    ],
)
def test_bad_arguments_are_named(arguments, message, capsys):
    assert compare_commits.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_help_explains_the_arguments():
    shown = subprocess.run(
        [sys.executable, "-m", "experiments.compare_commits", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "commit to compare with" in shown
