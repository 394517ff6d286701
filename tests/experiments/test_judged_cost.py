"""Test of the experiment on the cost of judged outcomes, at a small size."""

import json

from experiments import judged_cost

SMALL = ("selfplay.tables=8", "selfplay.steps_per_iteration=4", "search.simulations=2")


def test_judging_takes_a_share_of_the_time(tmp_path, capsys):
    out = tmp_path / "figures.json"
    assert judged_cost.main(["--outcomes", "2", "--rounds", "2", "--json", str(out), "--set", *SMALL]) == 0
    figures = json.loads(out.read_text())
    assert figures["judged_0_ratio"] == 1
    assert figures["judged_0_share"] == 0 < figures["judged_2_share"] < 1
    assert "| judged outcomes |" in capsys.readouterr().out


def test_bad_numbers_are_refused(capsys):
    assert judged_cost.main(["--outcomes", "0"]) == 2
    assert "--outcomes: expected numbers of 1 or more, got 0" in capsys.readouterr().err
