"""Speed of the arena with many people at once: how long they wait for an agent's answer, beside the bare planner.

    python -m experiments.bench_arena [--json FILE] [--quick] [--people 200] [--seconds 20]

A server process, agents without a pause, a network of the size `tiny` with 16 simulations; another process holds one
WebSocket per person. Every person plays a game of their own: looks at the table for about a second, then makes a random
legal decision. An answer is the time from sending a decision to the first decision of the agent that follows it,
through the server, the batched search and back; it counts only where the agent is to move next.

    answer_p50_ms, answer_p95_ms, answer_p99_ms   quantiles of the answers; wanted: 95 % below 300 ms
    own_p95_ms             time until the own decision is shown
    agent_decisions_per_s  decisions of the agents, all games together
    planner_per_s          decisions per second of the bare planner with full batches, measured before; planner_ms is a
                           batch of 64
    planner_share          agent_decisions_per_s / planner_per_s: 1 would be a server that does nothing but search
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from websockets.asyncio.client import ClientConnection, connect

from muzero.runs.provenance import provenance

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.bench_env import cpu_model
from experiments.bench_search import seconds, situations
from experiments.common.command_line import add_json_options
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.agents import Searcher
from muzero.config import SearchConfig, require
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint

ROOT = Path(__file__).resolve().parent.parent
BATCH = 64
SIMULATIONS = 16
WANTED_MS = 300
LOOKING = 1.0  # seconds for which a person looks at the table, on average


def write_network(path: Path) -> str:
    """Write an untrained network of the size `tiny`; return the description of its agent."""
    model = load_model_config("tiny", "belief")
    torch.manual_seed(0)
    network = Network(GameSpec.of("skyjo", 2), model)
    weights = {name: p.detach() for name, p in network.named_parameters()}
    agent = {
        "game": "skyjo",
        "players": 2,
        "variant": "belief",
        "model": asdict(model),
        "rules": {"preset": "official"},
    }
    agent["search"] = asdict(SearchConfig(simulations=SIMULATIONS))
    checkpoint.save(path, 1, tensors={"weights": weights}, arrays={}, state={}, agent=agent)
    return f"checkpoint:{path},simulations={SIMULATIONS}"


def bare_planner(agent: str, at_least: float) -> float:
    """Seconds of a full batch of the planner alone."""
    searcher = build(AgentSpec.parse(agent), "skyjo", 2, batch=BATCH)
    assert isinstance(searcher, Searcher)
    tables, plan = situations("skyjo", 2, BATCH), searcher.planner.plan
    keys = tables.decision_keys(0)
    return seconds(lambda: plan(tables.obs, tables.legal_bits, tables.phase, keys), at_least)


@dataclass
class Waits:
    """Times that people waited, in seconds.

    Attributes:
      answers: times until the agent's first decision after the own one.
      own: times until the own decision was shown.
      agent_decisions: decisions of agents that were seen.
      games: games that were finished.
    """

    answers: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    agent_decisions: int = 0
    games: int = 0


async def person(port: int, number: int, agent: str, waits: Waits, until: float, begins: float) -> None:
    """Play games until the time is over."""
    rng = random.Random(number)
    async with connect(f"ws://127.0.0.1:{port}/ws", origin=f"http://127.0.0.1:{port}", max_size=None) as link:  # type: ignore[arg-type]
        create = {"type": "create", "game": "skyjo", "seats": [None, agent], "you": 0, "name": f"P{number}"}
        await link.send(json.dumps(create))
        view = (await state(link))["view"]
        while time.monotonic() < until:
            if view["done"]:
                waits.games += 1
                await link.send('{"type":"again"}')
                view = (await state(link))["view"]
            elif not view["legal"]:
                view = (await state(link))["view"]
                waits.agent_decisions += 1
            else:
                await asyncio.sleep(rng.expovariate(1 / LOOKING))
                view = await decide(link, view, rng.choice(view["legal"]), waits, begins)


async def decide(
    link: ClientConnection, view: dict[str, Any], action: int, waits: Waits, begins: float
) -> dict[str, Any]:
    """Make a decision and wait until it is shown and, if the agent is next, until the agent has decided."""
    sent = time.monotonic()
    await link.send(json.dumps({"type": "act", "turn": view["turn"], "action": action}))
    after: dict[str, Any] = (await state(link, view["turn"] + 1))["view"]
    counts = sent >= begins
    if counts:
        waits.own.append(time.monotonic() - sent)
    if not after["done"] and not after["legal"]:
        turn = after["turn"]
        after = (await state(link, turn + 1))["view"]
        waits.agent_decisions += after["turn"] - turn
        if counts:
            waits.answers.append(time.monotonic() - sent)
    return after


async def state(link: ClientConnection, turn: int = 0) -> dict[str, Any]:
    """Next state at or after a turn."""
    while True:
        message: dict[str, Any] = json.loads(await link.recv())
        if message["type"] == "error":
            raise RuntimeError(message["message"])
        if message["type"] == "state" and (message["view"]["turn"] >= turn or message["view"]["turn"] == 0):
            return message


async def crowd(port: int, people: int, agent: str, duration: float) -> Waits:
    """Waits of all people; the first quarter of the time, in which they arrive, is not counted."""
    waits, start = Waits(), time.monotonic()
    begins, until = start + duration / 4, start + duration
    tasks = []
    for number in range(people):
        tasks.append(asyncio.create_task(person(port, number, agent, waits, until, begins)))
        await asyncio.sleep(duration / 4 / people)
    waits.agent_decisions = 0
    await asyncio.gather(*tasks)
    return waits


def free_port() -> int:
    """Port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(agent: str, people: int, log: Path) -> tuple[subprocess.Popen[bytes], int, float]:
    """Start a server; return its process, its port and the seconds until it answered."""
    port, started = free_port(), time.monotonic()
    keys = [f"port={port}", "store=", "pace=0", "games=[skyjo]", f"agents=[{agent}]", f"rooms={people + 1}"]
    command = [sys.executable, "-m", "muzero.arena", *keys, f"connections={people + 8}", f"batch={BATCH}"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, port, time.monotonic() - started
        time.sleep(0.05)
    raise RuntimeError(f"the server ended: {log.read_text()[-2000:]}")


def measure(people: int, duration: float, at_least: float) -> dict[str, Any]:
    """All figures of the benchmark."""
    with tempfile.TemporaryDirectory() as directory:
        agent = write_network(Path(directory) / "tiny")
        batch = bare_planner(agent, at_least)
        process, port, start = serve(agent, people, Path(directory) / "log")
        try:
            name = f"tiny, {SIMULATIONS} simulations"
            waits = asyncio.run(crowd(port, people, name, duration))
        finally:
            process.kill()
            process.wait()
    answers, own = (1000 * np.array(each) for each in (waits.answers, waits.own))
    rate = waits.agent_decisions / (0.75 * duration)
    return {
        "people": people,
        "answers": len(answers),
        "answer_p50_ms": float(np.quantile(answers, 0.5)),
        "answer_p95_ms": float(np.quantile(answers, 0.95)),
        "answer_p99_ms": float(np.quantile(answers, 0.99)),
        "own_p95_ms": float(np.quantile(own, 0.95)),
        "agent_decisions_per_s": rate,
        "planner_ms": 1000 * batch,
        "planner_per_s": BATCH / batch,
        "planner_share": rate * batch / BATCH,
        "start_s": start,
        "wanted_p95_ms": WANTED_MS,
    }


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; the exit code is 1 if people wait too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_options(parser, "bench_arena")
    parser.add_argument("--quick", action="store_true", help="a look only: 10 people for 4 seconds")
    parser.add_argument("--people", type=int, default=200, help="people who play at once (default: 200)")
    parser.add_argument("--seconds", type=float, default=20.0, help="time of the games (default: 20)")
    options = parser.parse_args(argv)
    try:
        require(options.people >= 1, "--people", "1 or more", options.people)
        require(options.seconds > 0, "--seconds", "more than 0", options.seconds)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    people, duration = (10, 4.0) if options.quick else (options.people, options.seconds)
    figures = measure(people, duration, 0.2 if options.quick else 2.0)
    for name, value in figures.items():
        print(f"{name:24} {value:.1f}" if isinstance(value, float) else f"{name:24} {value}")
    if options.json:
        machine = {"cpu": cpu_model(), "cores": os.cpu_count(), "python": platform.python_version()}
        command = {"command": " ".join(["python", "-m", "experiments.bench_arena", *(argv or sys.argv[1:])])}
        options.json.write_text(
            json.dumps({**figures, **machine, **command, "provenance": provenance()}, indent=1) + "\n"
        )
    return 0 if options.quick or figures["answer_p95_ms"] < WANTED_MS else 1


if __name__ == "__main__":
    sys.exit(main())
