"""Agents described by short strings, for command lines, tables and files.

    random
    bot:greedy                      a hand-written player; bot:threshold(t=2) with parameters
    checkpoint:PATH                 a trained network with greedy search; PATH is a run directory (its newest
                                    checkpoint), a checkpoint's directory or a .safetensors file; networks that were
                                    trained without search (+variant=ppo) play their policy
    agent:skyjo-belief              a trained network that comes with the project, with greedy search
    policy:PATH                     the network's policy without search; policy:skyjo-belief as for agent
    simulator:256                   search with the real rules, with this many sampled worlds per decision: plays
                                    actions out; with tree=ismcts, pimc or expectimax it searches a tree
    python:MODULE:CLASS             your own class, with a method act(situation); see docs/api.md

Options follow, separated by commas: checkpoint:runs/x,simulations=64,ablation=no_ego

    checkpoint  iteration=N  simulations=N  algorithm=gumbel|puct  backup=maxn|ego  value_scale=X|auto  value_visits=X
                visit_trust=X  max_considered=N  chance_source=learned|exact|uniform|cards  correct_luck=on|off
                merge=on|off
                backend=native|eager|compiled|compiled_dynamic  bf16=on|off  ablation=none|no_ego|wrong_ego|zero_all
                (value_scale=auto weighs values by the error that was measured in training, see docs/search.md. Default
                backend: native for slots networks on a CPU whose sizes are multiples of 16. Other networks
                are compiled by torch, which takes a quarter of a minute, from 100 simulations on. From 100 simulations
                on, all networks run in bfloat16 if the processor has it)
    agent       as checkpoint, without iteration
    policy      iteration=N  temperature=T  ablation=...
    simulator   bot=NAME (plays the worlds out; default as in python -m env.play)  network=PATH|agent:NAME (evaluates
                them instead)  tree=rollout|ismcts|pimc|expectimax; docs/evaluation.md explains these and the options of
                trees: exploration=X  until=round|end  opponents=BOT  seed=N  observers=one|all  worlds=N
    python      parameters of the class: python:my_agents:Careful,depth=3

checkpoint and policy also take imports=MODULE: the module of a network or an encoder of your own (model.network,
model.encoder). A checkpoint's file alone never makes a module run.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import env
from muzero.agents.agents import Policy, Searcher
from muzero.agents.bots import Bot, Random
from muzero.agents.description import OPTIONS, SEARCH_OPTIONS, AgentSpec, join_options
from muzero.agents.fitness import require_finite_outputs, require_memory
from muzero.agents.python_agent import code_fingerprint, make_python_agent
from muzero.agents.simulators import make_simulator
from muzero.agents.situation import Agent
from muzero.agents.value_model import NetworkFeatures, PublicFeatures, ValueModel, fit_value_model
from muzero.config import ModelConfig, SearchConfig
from muzero.config.fields import require, require_path
from muzero.model.interface import BaseNetwork
from muzero.model.network import make_network, trust_parts
from muzero.model.shapes import misfit
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint
from muzero.runs.processes import multiplies_bf16, pick_device
from muzero.runs.tensors import weakness
from muzero.search.backend import resolve_backend
from muzero.search.judge import make_native_values

__all__ = [
    "LINEAR",
    "OPTIONS",
    "SHIPPED",
    "AgentSpec",
    "build",
    "fingerprint",
    "join_options",
    "load_network",
    "load_value_model",
    "match_search",
    "preferred_agents",
    "resolve",
    "resolve_value_function",
    "shipped_agents",
    "shipped_weights",
    "trained_for",
    "value_fingerprint",
]

LINEAR = "linear"
"""Name of the value function that needs no network."""

# Name of the arithmetic of each kind of latent; changed whenever searches with the same weights round differently.
_ARITHMETIC = {"slots": b"native step", "flat": b"packed products"}
SHIPPED = Path(__file__).parent / "shipped"  # trained networks that come with the project
_SEARCHING = ("checkpoint", "agent")  # kinds of agents that search with a network
_TRUST = 1.2  # weight of values times their error with value_scale=auto: 1.7 / sqrt(2), see `_calibrated`
_LEAST_ERROR = 1e-6  # error of values that was measured; none is smaller but 0
_LONG_SEARCH = 100  # simulations from which compilation and bfloat16 pay; they change last digits, and so, rarely, a
# move: the number of games must not matter


# ---- the weights behind it -------------------------------------------------------------------------------------------


def trained_for(spec: AgentSpec) -> dict[str, Any] | None:
    """Game, number of players and rules that the agent's network was trained for; None if it has no network."""
    network = _network_spec(spec)
    if network is None:
        return None
    return {key: value for key, value in _weights(network).agent.items() if key in ("game", "players", "rules")}


def resolve(spec: AgentSpec) -> AgentSpec:
    """Make the description complete: iteration of a run's newest checkpoint, calibrated weight of values, precision of
    a long search.

    Without it, the same text would mean another agent once the run has a newer checkpoint, or on another processor.
    """
    network = _network_spec(spec)
    if network is None:
        return spec
    agent = _weights(network).agent
    is_run = network.kind != "agent" and (Path(network.target) / checkpoint.CHECKPOINTS).is_dir()
    if spec.kind == "simulator":
        newest = Path(network.target) / checkpoint.CHECKPOINTS / f"{agent['iteration']:06d}"
        return spec.with_options(network=newest) if is_run else spec
    if is_run and "iteration" not in spec.options:
        spec = spec.with_options(iteration=agent["iteration"])
    spec = _calibrated(spec, agent)
    if spec.kind in _SEARCHING and "bf16" not in spec.options:
        search = _with_search_options(spec, _trained_search(f"agent {str(spec)!r}", agent))
        if search.bf16 or search.auto_bf16 or search.simulations >= _LONG_SEARCH:
            spec = spec.with_options(bf16="on" if _default_bf16(search) else "off")
    return spec


def _calibrated(spec: AgentSpec, agent: dict[str, Any]) -> AgentSpec:
    """Replace value_scale=auto by a number: values are weighed by the error that was measured in training.

    If the values of two actions have independent errors with standard deviation e, a measured difference d is right in
    sign with probability Phi(d / (e sqrt(2))), whose log odds are about 1.7 d / (e sqrt(2)): so much does a difference
    of values weigh against one of prior logits. Errors of sibling positions have much in common, so this is cautious.
    """
    if spec.options.get("value_scale") != "auto":
        return spec
    key, error = f"agent {str(spec)!r}, value_scale", agent.get("value_rmse")
    search = _trained_search(f"agent {str(spec)!r}", agent)
    measured = "a number: the checkpoint has no measured error of its values (evaluation.value_positions)"
    require((error or 0.0) >= _LEAST_ERROR, key, measured, "auto")
    per_unit = not search.rescale_values and search.visit_trust == 0 and search.maxvisit_init > 0
    expected = "a number: weights are per unit of value only with search.rescale_values=false and search.visit_trust=0"
    require(per_unit, key, expected, "auto")
    return spec.with_options(value_scale=f"{_TRUST / (float(error or 1) * search.maxvisit_init):.4g}")


def fingerprint(spec: AgentSpec) -> str | None:
    """Hash of the agent's weights and the arithmetic of its search, or of its Python code; None if it has neither."""
    if spec.kind == "python":
        return code_fingerprint(f"agent {str(spec)!r}", spec.target)
    network = _network_spec(spec)
    if network is None:
        return None
    found = _weights(network)
    arithmetic = _ARITHMETIC.get(found.agent.get("model", {}).get("latent", ""), _ARITHMETIC["slots"])
    digest = hashlib.sha256(arithmetic if spec.kind in _SEARCHING else b"")
    for name, tensor in sorted((found.ema or found.weights).items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _network_spec(spec: AgentSpec) -> AgentSpec | None:
    """Description whose target is the agent's network: its own, a simulator's network, or None."""
    if spec.kind == "simulator" and "network" in spec.options:
        kind, _, name = spec.options["network"].partition(":")
        return AgentSpec("agent", name) if kind == "agent" else AgentSpec("policy", spec.options["network"])
    return spec if spec.kind in (*_SEARCHING, "policy") else None


def _weights(spec: AgentSpec) -> checkpoint.Weights:
    named = spec.kind == "agent" or (spec.kind == "policy" and spec.target in shipped_agents())
    path = shipped_weights(spec.target) if named else Path(spec.target)
    require_path(spec.kind, path)
    if "iteration" in spec.options:
        iteration = spec.number(int, spec.options["iteration"], "iteration")
        path = path / checkpoint.CHECKPOINTS / f"{iteration:06d}"
    found = checkpoint.load_weights(path)
    _require_game(f"{path}, metadata", found.agent)
    return found


def _require_game(key: str, agent: dict[str, Any]) -> None:
    """Refuse a game, a number of players or rules that there are not."""
    require(agent["game"] in env.games(), f"{key}: game", f"one of {', '.join(env.games())}", agent["game"])
    try:
        for players in {agent["players"], *agent.get("player_counts", ())}:
            env.make(agent["game"], 1, players, agent.get("rules", {}))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def shipped_agents() -> list[str]:
    """Names of the trained networks that come with the project."""
    return sorted(path.stem for path in SHIPPED.glob("*.safetensors"))


def preferred_agents() -> list[str]:
    """Names of the trained networks that come with the project, belief variants first: the order of defaults."""
    return sorted(shipped_agents(), key=lambda name: not name.endswith("-belief"))


def shipped_weights(name: str) -> Path:
    """File of a trained network that comes with the project; an error lists their names."""
    known = shipped_agents()
    require(name in known, f"agent 'agent:{name}'", f"one of {', '.join(known) or '(there are none)'}", name)
    return SHIPPED / f"{name}.safetensors"


def load_network(spec: AgentSpec, game: str, players: int) -> tuple[BaseNetwork, SearchConfig]:
    """Load the network of a checkpoint for a number of players, and the search it was trained with."""
    found = _weights(spec)
    agent, key = found.agent, f"agent {str(spec)!r}"
    require(agent["game"] == game, f"{key}, game", f"{game} as in this match", agent["game"])
    version = env.describe(game, players).version
    known = agent.get("game_version", version)
    require(known == version, f"{key}, version of {game}", f"{version} as it is now", known)
    counts = agent.get("player_counts", [agent["players"]])
    known = counts[0] if len(counts) == 1 else f"one of {', '.join(map(str, counts))}"
    require(players in counts, f"{key}, players", f"{players} as in this match", known)
    simulations = spec.options.get("simulations", "0")
    alone = simulations == "0" or agent.get("algorithm") != "ppo"
    require(alone, f"{key}, simulations", "0: ppo has trained no model to search with", simulations)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, trained = _fill(ModelConfig, agent["model"], key), found.ema or found.weights
    largest = GameSpec.of(game, max(counts))
    trust_parts(key, model, spec.options.get("imports", ""))
    differences = misfit(trained, largest, model)  # before a network of the size that the file claims is made
    if differences:
        raise ValueError(f"{key}: its weights are of another version of the network: {differences}")
    doubt = weakness(trained)
    if doubt:
        warnings.warn(f"{key}: {doubt}; it will play badly", RuntimeWarning, stacklevel=2)
    network = make_network(GameSpec.of(game, players), model).to(device).eval()
    if max(counts) > players:
        trained = make_network(largest, model).weights_for(players, trained)
    network.load_state_dict(trained)
    require_finite_outputs(key, network)
    return network, _trained_search(key, agent)


def _trained_search(key: str, agent: dict[str, Any]) -> SearchConfig:
    """Search settings that a checkpoint was trained with."""
    search: SearchConfig = _fill(SearchConfig, agent.get("search", {}), key)
    return search


def _fill(kind: type[Any], values: dict[str, Any], key: str) -> Any:
    """Make a configuration from a checkpoint's values, whose types have been checked; an error names a bad value."""
    config = kind(**values)
    try:
        config.check()
    except ValueError as error:
        raise ValueError(f"{key}, {error}") from None
    return config


# ---- the agent itself ------------------------------------------------------------------------------------------------


def build(spec: AgentSpec, game: str, players: int, *, batch: int, lanes: int = 1, threads: int = 1) -> Agent:
    """Make the agent that a description names.

    Args:
      spec: description of the agent.
      game, players: game and number of players of the tables that it will play at.
      batch: largest number of decisions that a search makes at a time.
      lanes: number of lanes of a search.
      threads: number of threads of a simulator.
    """
    if spec.kind == "random":
        return Random()
    if spec.kind == "bot":
        return Bot(spec.target)
    if spec.kind == "python":
        return make_python_agent(f"agent {str(spec)!r}", spec.target, spec.options, game, players)
    if spec.kind == "simulator":
        return _build_simulator(spec, game, players, threads)
    if spec.options.get("value_scale") == "auto":
        spec = _calibrated(spec, _weights(spec).agent)
    network, trained = load_network(spec, game, players)
    if "ablation" in spec.options:
        network.set_ablation(spec.options["ablation"])
    if spec.kind == "policy":
        temperature = spec.number(float, spec.options.get("temperature", "0"), "temperature")
        return Policy(network, temperature, name=str(spec))
    search = match_search(spec, network, trained, lanes)
    require_memory(f"agent {str(spec)!r}", network, search, batch)
    return Searcher(network, search, batch, name=str(spec))


def match_search(spec: AgentSpec, network: BaseNetwork, trained: SearchConfig, lanes: int = 1) -> SearchConfig:
    """Search settings of a checkpoint in matches: as it was trained, changed by its options, and as fast as possible.

    Everything that decides how matches search is here: number of leaves per step, precision and backend.
    """
    key = f"agent {str(spec)!r}"
    search = replace(_with_search_options(spec, trained), lanes=lanes)
    candidates = search.algorithm == "gumbel" and search.max_considered > 1 and not search.rescale_values
    if candidates and search.simulations % 2 == 0:
        search = replace(search, leaves=max(2, search.leaves))  # leaves of two candidates: same search, half the calls
    bf16 = spec.options.get("bf16", "on" if _default_bf16(search) else "off")
    require(bf16 in ("on", "off"), f"{key}, bf16", "on or off", bf16)
    otherwise = "compiled_dynamic" if search.simulations >= _LONG_SEARCH else "eager"
    known = ("native", "eager", "compiled", "compiled_dynamic")
    asked = spec.options.get("backend")
    require(asked in (None, *known), f"{key}, backend", f"one of {', '.join(known)}", asked)
    search = replace(search, backend=asked or "auto", bf16=bf16 == "on", auto_bf16=False)
    return replace(search, backend=resolve_backend(network, search, otherwise, f"{key}, backend"))


def _with_search_options(spec: AgentSpec, search: SearchConfig) -> SearchConfig:
    """Apply the description's options of the search, such as the number of simulations."""
    changes: dict[str, Any] = {}
    for name in SEARCH_OPTIONS:
        if name not in spec.options:
            continue
        text, now = spec.options[name], getattr(search, name)
        if isinstance(now, bool):
            require(text in ("on", "off"), f"agent {str(spec)!r}, {name}", "on or off", text)
            changes[name] = text == "on"
        else:
            changes[name] = text if isinstance(now, str) else spec.number(type(now), text, name)
    found = replace(search, **changes)
    try:
        found.check()
    except ValueError as error:
        raise ValueError(f"agent {str(spec)!r}: {error}") from None
    return found


def _default_bf16(search: SearchConfig) -> bool:
    """Tell whether a search runs in bfloat16 if the description does not say: as in training, and in long searches."""
    return search.bf16 or ((search.auto_bf16 or search.simulations >= _LONG_SEARCH) and _has_bf16())


def _has_bf16() -> bool:
    """Tell whether the device multiplies in bfloat16 natively (emulation is slower than single precision)."""
    return multiplies_bf16(pick_device("auto"))


def _build_simulator(spec: AgentSpec, game: str, players: int, threads: int) -> Agent:
    key, worlds = f"agent {str(spec)!r}", spec.number(int, spec.target, "worlds")
    trained = _network_spec(spec)
    network = load_network(trained, game, players)[0] if trained else None
    native = make_native_values(network) if network is not None else None
    return make_simulator(key, worlds, spec.options, network, native, env.make(game, 1, players), threads, str(spec))


# ---- value functions by name -----------------------------------------------------------------------------------------


def resolve_value_function(text: str, game: str, players: int) -> str:
    """Make the name of a value function complete, as for agents; refuse one that does not fit the table.

    Args:
      text: name, see `load_value_model`.
      game, players: table that it is for.
    """
    if text == LINEAR:
        return text
    expected = f"{LINEAR}, or an agent with a network: agent:NAME, checkpoint:PATH, policy:PATH"
    require(text.partition(":")[0] in ("agent", "checkpoint", "policy"), "luck", expected, text)
    spec = resolve(AgentSpec.parse(text))
    load_network(spec, game, players)
    return str(spec)


def value_fingerprint(text: str) -> str | None:
    """Hash of the weights behind a value function; None if it has no network."""
    return None if text == LINEAR else fingerprint(AgentSpec.parse(text))


def load_value_model(text: str, game: str, players: int, rules: Mapping[str, Any]) -> ValueModel:
    """Make the value function that a text names: `linear`, or an agent whose network is asked; cached.

    Args:
      text: `linear`, or the name of an agent with a network (`agent:NAME`, `checkpoint:PATH`, `policy:PATH`).
      game, players, rules: table that it is for.
    """
    text = resolve_value_function(text, game, players)
    return _load(text, game, players, tuple(sorted((key, _frozen(value)) for key, value in rules.items())))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@lru_cache(4)
def _load(text: str, game: str, players: int, rules: tuple[tuple[str, Any], ...]) -> ValueModel:
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in rules}
    info = env.describe(game, players, options)
    if text == LINEAR:
        return fit_value_model(PublicFeatures(info), game, players, options)
    network, _ = load_network(AgentSpec.parse(text), game, players)
    features = NetworkFeatures(network, info.score_scale, make_native_values(network))
    return fit_value_model(features, game, players, options, games=512, positions=16)
