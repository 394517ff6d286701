"""Searches that benchmarks measure: networks, positions, settings, and how many threads each uses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch

import env
from experiments.common.timing import speed
from muzero.config import SearchConfig
from muzero.model.flat import FlatDynamics, FlatPolicy
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.lane import Clock, Lane
from muzero.search.planner import Planner

COMPILED_FROM = 256  # games from which on flat networks run through torch.compile


def make_network(name: str, spec: GameSpec) -> Network:
    """Untrained network of a model in conf/model, or "tiny_flat": `tiny` with the paper's latent and encoder."""
    if name == "tiny_flat":
        config = replace(load_model_config("tiny"), latent="flat", encoder="transformer")
    else:
        config = load_model_config(name)
    return Network(spec, config).eval()


def situations(game: str, players: int, batch: int) -> env.VecEnv:
    """Tables in the middle of their games."""
    tables = env.make(game, batch, players, seed=1)
    tables.random_steps(31)
    return tables


def lanes_for(name: str, batch: int, threads: int) -> int:
    """Number of lanes of a search: one per core, or one in all if that leaves few games of a large network to each.

    Lanes wait for each other once per search, threads of one matrix product at its end, so lanes lose less to other
    work on the machine. But each lane reads all weights for its own games, and lanes whose networks torch runs step by
    step wait for each other's Python: two of them take longer than one.
    """
    if name == "tiny_flat" and batch < COMPILED_FROM:
        return 1
    return 1 if name == "paper" and batch < 32 * threads else min(threads, batch)


def search_settings(
    name: str, network: Network, batch: int, threads: int, compile: bool, algorithm: str, simulations: int
) -> SearchConfig:
    """Settings of a search that is to be measured; sets the number of torch's threads that go with them.

    Slots networks run by the native step; flat ones through torch.compile, which takes half a minute per size, only
    from COMPILED_FROM games on, the sizes that are used in training.

    Args:
      name: name of the network.
      network: network to search with.
      batch: number of games searched at a time.
      threads: number of cores to use.
      compile: whether networks may run by anything else than torch as it is.
      algorithm: "gumbel" or "puct".
      simulations: number of simulations per decision.
    """
    lanes = lanes_for(name, batch, threads)
    torch.set_num_threads(max(1, threads // lanes))
    native = network.config.latent == "slots"
    compiled = compile and name != "paper" and (native or (lanes > 1 and batch >= COMPILED_FROM))
    return SearchConfig(
        algorithm=algorithm,
        simulations=simulations,
        tree_threads=threads if lanes == 1 else 1,
        lanes=lanes,
        backend="auto" if compiled else "eager",
    )


class PlannedSearch:
    """A search of the same positions again and again.

    Attributes:
      planner: planner that searches them.
      simulations: number of simulations of a call of `run`, all games together.
    """

    def __init__(self, network: Network, config: SearchConfig, batch: int) -> None:
        tables = situations(network.spec.game, network.num_players, batch)
        self.planner = Planner(network, replace(config, skip_forced=False), batch)
        self.simulations = batch * config.simulations
        self._asked = tables.obs, tables.legal_bits, tables.phase, tables.decision_keys()
        self._tables = tables  # owner of the arrays

    def run(self) -> None:
        """Search all positions once."""
        self.planner.plan(*self._asked)

    def simulations_per_s(self, at_least: float) -> float:
        """Simulations per second over at least `at_least` seconds, without the time in which roots are encoded."""
        before = self.planner.clock
        whole = speed(self.run, self.simulations, at_least)
        clock = spent(self.planner.clock, before)
        return whole / (1 - clock.encoder / (clock.encoder + clock.network + clock.tree))


def multiply(planner: Planner, calls: int) -> None:
    """Multiply as so many simulations of all games do, in all lanes at once, and do nothing else.

    No search that asks the same network for every new node can be quicker than these matrix products.

    Args:
      planner: planner of a flat network, with values of the root's player alone.
      calls: number of simulations per game.
    """
    network = planner.network
    assert isinstance(network, Network)
    dynamics, policy = network.dynamics, network.policy
    assert isinstance(dynamics, FlatDynamics)
    assert isinstance(policy, FlatPolicy)
    latent, action = network.config.latent_dim, network.config.action_dim
    values = {"outputs": network.config.value_bins}

    @torch.inference_mode()
    def run(lane: Lane) -> None:
        torch.get_num_threads()  # without this, a new thread multiplies with as many threads as there are cores
        with torch.autocast("cpu", torch.bfloat16, enabled=planner.config.bf16):
            x, told = torch.zeros(lane.batch, latent), torch.zeros(lane.batch, latent + action)
            for _ in range(calls):
                dynamics.body(told)
                for head, options in ((policy.head, {}), (network.value, values), (network.reward, values)):
                    head(x, **options)

    with ThreadPoolExecutor(max(1, len(planner.lanes) - 1)) as pool:
        others = [pool.submit(run, lane) for lane in planner.lanes[1:]]
        run(planner.lanes[0])
        for other in others:
            other.result()


def spent(now: Clock, before: Clock) -> Clock:
    """Time and work added to a clock."""
    return Clock(**{name: value - getattr(before, name) for name, value in vars(now).items()})
