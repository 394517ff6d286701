"""Evaluation in training: every table size, opponents of all kinds, and deals that change."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from muzero.matches.bot_evaluation import Evaluator
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint
from tests.composing import compose_config

CPU = torch.device("cpu")
SMOKE = ["preset=smoke", "+variant=belief", "+game.rules.episode=round", "+game.rules.max_decisions=60"]
SMOKE += ["game.bots=[greedy_value]", "game.held_out_bots=[]", "evaluation.games=6", "evaluation.simulations=0"]


class Subject:
    """Evaluator of an untrained network."""

    def __init__(self, path: Path, *changes: str) -> None:
        self.config, self.iteration = compose_config(*SMOKE, *changes), 0
        torch.manual_seed(0)
        model, players = self.config.model, max(self.config.player_counts())
        self.network = Network(GameSpec.of(self.config.game.name, players), model).eval()
        self.evaluator = Evaluator(self.config, path, CPU, replace(self.config.search, simulations=0))

    @property
    def weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self.network.named_parameters()}

    def evaluate(self) -> dict[str, Any]:
        return self.evaluator.evaluate(self.iteration, self.network, self.weights)


def test_all_table_sizes_are_evaluated_with_calibration(tmp_path: Path) -> None:
    found = Subject(tmp_path, "selfplay.players=[2,3]").evaluate()
    sizes = found.pop("by_players")
    assert list(sizes) == ["2", "3"]
    assert sizes["2"] == found
    assert [groups["evaluation"]["greedy_value"]["games"] for groups in sizes.values()] == [6, 6]
    assert sizes["2"]["calibration"] != sizes["3"]["calibration"]
    assert all(0 <= groups["calibration"]["brier"] <= 1 for groups in sizes.values())
    assert "by_players" not in Subject(tmp_path).evaluate()


def test_deals_belong_to_the_iteration(tmp_path: Path) -> None:
    subject = Subject(tmp_path)
    found = []
    for iteration in (2, 4, 2):
        subject.iteration = iteration
        found.append(subject.evaluate())
    assert found[0] == found[2] != found[1]


def test_past_self_is_the_network_kept_after_half_of_the_iterations(tmp_path: Path) -> None:
    """With equal weights, both sides of a deal are played the same way: the past self wins exactly half."""
    subject = Subject(tmp_path, "evaluation.also=[past_self,random]", "train.keep_every=3")
    asked = []
    for iteration, past in ((5, 0), (6, 3), (11, 3), (12, 6), (17, 6), (18, 9)):
        asked.append(subject.evaluator.past_iteration(iteration) == past)
    assert all(asked)
    subject.iteration = 3
    assert list(subject.evaluate()["evaluation"]) == ["greedy_value", "random"], "there is no past network yet"
    agent = {"game": "skyjo", "players": 2, "variant": "belief", "model": asdict(subject.config.model)}
    tensors = {"weights": subject.weights}
    checkpoint.save(tmp_path, 3, tensors=tensors, arrays={}, state={}, agent=agent)
    subject.iteration = 6
    assert subject.evaluate()["evaluation"]["past_self"]["win_rate"] == 0.5
    with torch.no_grad():
        for parameter in subject.network.parameters():
            parameter.mul_(-1.0)
    assert subject.evaluate()["evaluation"]["past_self"]["score_difference"] != 0


def test_opponents_are_built_once_and_sit_at_every_table_size(tmp_path: Path) -> None:
    subject = Subject(tmp_path, "selfplay.players=[2,3]", "evaluation.also=[random]", "exploit=bot:greedy")
    subject.evaluator.prepare()
    sizes = subject.evaluate()["by_players"]
    assert [list(groups["evaluation"]) for groups in sizes.values()] == [["greedy_value", "random", "bot:greedy"]] * 2
    agents = [subject.evaluator.agent(players, subject.network, subject.weights) for players in (2, 2, 3)]
    assert agents[0] is agents[1]
    assert agents[0] is not agents[2]
