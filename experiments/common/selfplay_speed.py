"""Speed of self-play: compared with its searches alone, projected to whole iterations, and of several Ray actors."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import env
from experiments.common.searches import situations
from experiments.common.timing import in_turn
from experiments.common.yardsticks import clock
from muzero.config import Config
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.selfplay.opponents import Curriculum, OpponentMix
from muzero.selfplay.ray_runtime import RayRuntime
from muzero.selfplay.worker import PlayResult, SelfPlay
from muzero.training.trainer import play_request

Figures = dict[str, Any]


def selfplay_threads(config: Config) -> int:
    """Threads of torch in self-play, as the runtimes set them."""
    threads = config.runtime.threads or os.cpu_count() or 1
    if config.search.lanes > 1:
        return 1
    return max(1, threads - threads // 2) if config.train.mode == "async" else threads


def playing(config: Config, at_least: float) -> Figures:
    """Decisions per second of self-play, and of the same searches alone."""
    torch.set_num_threads(selfplay_threads(config))
    worker = SelfPlay(config)
    request = play_request(config, 0, OpponentMix(0.0, ()))
    planner = worker.planner(request.simulations)
    asked: list[tuple[Any, ...]] = []
    plan = planner.plan

    def noting(*arguments: Any) -> Any:
        asked.append(arguments)
        return plan(*arguments)

    planner.plan = noting  # type: ignore[method-assign, assignment]

    def once() -> tuple[float, float]:
        """Seconds per decision of self-play, and of its searches alone."""
        asked.clear()
        played = worker.play(request)
        alone = clock(lambda: [plan(*arguments) for arguments in asked])
        assert played.decisions == sum(len(arguments[0]) for arguments in asked) == played.table_steps
        return played.seconds / played.decisions, alone / played.decisions

    still = situations(config.game.name, config.game.players, config.selfplay.tables)
    still_asked = still.obs, still.legal_bits, still.phase, still.decision_keys()

    def compared_with_bench_search() -> tuple[float, float]:
        """Seconds per decision of self-play, and of as many searches of bench_search's situations."""
        asked.clear()
        played = worker.play(request)
        searches = -(-played.decisions // still.num_envs)
        there = clock(lambda: [plan(*still_asked) for _ in range(searches)])
        return played.seconds / played.decisions, there / (searches * still.num_envs)

    whole, alone, efficiency = in_turn(once, at_least)
    _, there, in_all = in_turn(compared_with_bench_search, at_least)
    return {
        "selfplay_decisions_per_s": 1 / whole,
        "plan_decisions_per_s": 1 / alone,
        "bench_search_decisions_per_s": 1 / there,
        "selfplay_efficiency": in_all,
        "selfplay_to_plan": efficiency,
    }


def decisions_per_game(config: Config) -> float:
    """Mean length of games between the curriculum's bots, by the rules of training."""
    game = config.game
    tables = env.make(game.name, 64, game.players, game.rules_for_training(), seed=0, auto_reset=False)
    lengths = []
    for name in game.bots:
        tables.reset(0, deals=list(range(64)))
        bots, made = [tables.bot(name)] * game.players, np.zeros(64)
        while not tables.done.all():
            made += ~tables.done
            tables.step(np.where(tables.done, env.SKIP, tables.bot_actions(bots, 0)))
        lengths.append(made.mean())
    return float(np.mean(lengths))


def projected(config: Config, steps_per_s: float, at_least: float) -> Figures:
    """Seconds of a whole iteration, projected from steps of all tables in mid-game and from steps of the learner."""
    torch.set_num_threads(selfplay_threads(config))
    worker = SelfPlay(config)
    opponents = OpponentMix(0.0, Curriculum(config.selfplay.curriculum, config.game.bots).shares())
    request = replace(play_request(config, 0, opponents), steps=1)
    worker.play(replace(request, simulations=1, steps=31))
    moves: list[PlayResult] = []
    while len(moves) < 2 or sum(move.seconds for move in moves) < at_least:
        moves.append(worker.play(request))
    length = decisions_per_game(config)
    # A step costs every table one decision, whichever player makes it.
    per_decision = sum(move.seconds for move in moves) / sum(move.table_steps for move in moves)
    selfplay = config.selfplay.games_per_iteration * length * per_decision
    whole = sum(move.seconds for move in moves)
    parts = {
        "env": sum(move.env_seconds for move in moves) / whole,
        "tree": sum(move.clock.tree for move in moves) / whole,
        "network": sum(move.clock.network + move.clock.encoder for move in moves) / whole,
    }
    learner = config.train.steps / steps_per_s
    return {
        "episodes": config.selfplay.games_per_iteration,
        "simulations": request.simulations,
        "steps": config.train.steps,
        "decisions_per_game": length,
        "decisions_per_s": sum(move.decisions for move in moves) / whole,
        "simulations_per_s": sum(move.clock.simulations for move in moves) / whole,
        **{f"iteration_{name}_s": selfplay * share for name, share in parts.items()},
        "iteration_selfplay_s": selfplay,
        "iteration_learner_s": learner,
        "iteration_s": selfplay + learner,
    }


def ray_speeds(one: Config, two: Config, at_least: float) -> tuple[Figures, Figures, float]:
    """Games and decisions per second of one Ray actor and of two, without a learner; and how much faster two are."""
    runtimes = [RayRuntime(config) for config in (two, one)]  # the first runtime starts Ray, and stops it
    try:
        spec = GameSpec.of(one.game.name, one.game.players)
        weights = {name: tensor.detach() for name, tensor in Network(spec, one.model).named_parameters()}
        games: list[list[float]] = [[], []]

        def seconds_per_decision(which: int, config: Config) -> float:
            runtimes[which].request(play_request(config, 0, OpponentMix(0.0, ())), weights, None)
            began = time.perf_counter()
            played = runtimes[which].gather()
            elapsed = time.perf_counter() - began
            games[which].append(sum(len(part.episodes) for part in played) / elapsed)
            return elapsed / sum(part.decisions for part in played)

        both, alone, scaling = in_turn(
            lambda: (seconds_per_decision(0, two), seconds_per_decision(1, one)), at_least, at_least_times=5
        )
    finally:
        for runtime in reversed(runtimes):
            runtime.close()
    figures = [
        {"requests": len(found) - 1, "games_per_s": statistics.median(found[1:]), "decisions_per_s": 1 / each}
        for found, each in zip(games, (both, alone), strict=True)
    ]
    return figures[1], figures[0], scaling
