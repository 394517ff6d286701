"""Agents by short strings, for command lines and tables.

    random
    bot:greedy                      a hand-written player; bot:threshold(t=2) with parameters
    checkpoint:PATH                 a trained network with greedy search; PATH is a run directory (its newest
                                    checkpoint), a checkpoint's directory or a .safetensors file
    policy:PATH                     its policy without search
    simulator:256                   search with the real rules, so many imagined worlds per decision

Options follow, separated by commas: checkpoint:runs/x,simulations=64,ablation=no_ego

    checkpoint  iteration=N  simulations=N  algorithm=gumbel|puct  value_scale=X
                backend=native|eager|compiled|compiled_dynamic  bf16=on|off  ablation=none|no_ego|wrong_ego|zero_all
                (by default, native for slots networks, of sizes that 16 divides, on a CPU; from 100 simulations on,
                others are compiled by torch, which takes a quarter of a minute, and all are in bfloat16 if the
                processor has it)
    policy      iteration=N  temperature=T  ablation=...
    simulator   bot=NAME (plays the worlds out; by default as in python -m env.play)  network=PATH (judges them instead)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

import env
from muzero.agents.agents import Agent, Bot, Policy, Random, Searcher, Simulator
from muzero.config import ModelConfig, SearchConfig, require
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs import checkpoint
from muzero.search.backend import resolve_backend

KINDS: dict[str, tuple[str, ...]] = {
    "random": (),
    "bot": (),
    "checkpoint": ("iteration", "simulations", "algorithm", "value_scale", "ablation", "backend", "bf16"),
    "policy": ("iteration", "temperature", "ablation"),
    "simulator": ("bot", "network"),
}

_ARITHMETIC = b"native step"  # of searches; another one wherever the same weights come to round otherwise
_WORTH_COMPILING = 100  # simulations; whatever the number of games, for it changes last digits, and so, rarely, a move


@dataclass(frozen=True)
class AgentSpec:
    """An agent that was named.

    Attributes:
      text: as it was written.
      kind: one of `KINDS`.
      what: a bot's name, a path, or a number of worlds.
      options: by name.
    """

    text: str
    kind: str
    what: str
    options: dict[str, str]


def parse(text: str) -> AgentSpec:
    """Reads a string; refuses unknown kinds and options by name."""
    kind, _, rest = text.partition(":")
    require(kind in KINDS, f"agent {text!r}", f"one of {', '.join(f'{k}:...' for k in KINDS)}", kind)
    what, options = rest, {}
    if kind != "bot":  # a bot's parameters are in brackets, with commas of their own
        what, *parts = rest.split(",")
        for part in parts:
            name, equals, value = part.partition("=")
            allowed = ", ".join(KINDS[kind]) or "none"
            require(bool(equals) and name in KINDS[kind], f"agent {text!r}", f"options among {allowed}", part)
            require(name not in options, f"agent {text!r}", "every option once", part)
            options[name] = value
    require(bool(what) == (kind != "random"), f"agent {text!r}", "something after the colon, except for random", what)
    return AgentSpec(text, kind, what, options)


def trained_for(player: AgentSpec) -> dict[str, Any] | None:
    """Game, number of players and rules that a network was trained for; None for other agents."""
    if player.kind == "simulator" and "network" in player.options:
        player = parse(f"policy:{player.options['network']}")
    if player.kind not in ("checkpoint", "policy"):
        return None
    return {key: value for key, value in _weights(player).agent.items() if key in ("game", "players", "rules")}


def resolve(text: str) -> str:
    """The same agent, with what else it depends on: a run's newest checkpoint may soon be another, and another machine
    may compute in another precision."""
    player = parse(text)
    if player.kind == "simulator" and "network" in player.options:
        run = Path(player.options["network"])
        if not (run / checkpoint.CHECKPOINTS).is_dir():
            return text
        newest = f"{checkpoint.load_weights(run).agent['iteration']:06d}"
        options = player.options | {"network": str(run / checkpoint.CHECKPOINTS / newest)}
        return ",".join([f"simulator:{player.what}", *(f"{name}={value}" for name, value in options.items())])
    if player.kind not in ("checkpoint", "policy"):
        return text
    agent = _weights(player).agent
    if "iteration" not in player.options and (Path(player.what) / checkpoint.CHECKPOINTS).is_dir():
        text += f",iteration={agent['iteration']}"
    if player.kind == "checkpoint" and "bf16" not in player.options:
        search = _trained_search(agent)
        simulations = player.options.get("simulations", search.simulations)
        search = replace(search, simulations=_numbers(player)(int, simulations, "simulations"))
        if search.bf16 or search.simulations >= _WORTH_COMPILING:
            text += f",bf16={'on' if _in_bf16(search) else 'off'}"
    return text


def fingerprint(text: str) -> str | None:
    """Of the weights that the agent plays with, and of how they are computed with; None if it has none."""
    player = parse(text)
    if player.kind == "simulator" and "network" in player.options:
        player = parse(f"policy:{player.options['network']}")
    if player.kind not in ("checkpoint", "policy"):
        return None
    found = _weights(player)
    digest = hashlib.sha256(_ARITHMETIC if player.kind == "checkpoint" else b"")
    for name, tensor in sorted((found.ema or found.weights).items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def build(player: AgentSpec, game: str, players: int, *, batch: int, lanes: int = 1, threads: int = 1) -> Agent:
    """Makes the agent, for a game.

    Args:
      batch: decisions at a time.
      lanes: of a search.
      threads: of a simulator.
    """
    number = _numbers(player)
    if player.kind == "random":
        return Random()
    if player.kind == "bot":
        return Bot(player.what)
    if player.kind == "simulator":
        worlds = number(int, player.what, "worlds")
        network = player.options.get("network")
        judge = load_network(parse(f"policy:{network}"), game, players)[0] if network else None
        hides = judge is not None and judge.spec.private
        reason = f"none in {game}, where the next one to decide sees another hand"
        require(not hides, f"agent {player.text!r}, network", reason, network)
        tables = env.make(game, 1, players)
        bot = player.options.get("bot", tables.default_bot)
        try:
            tables.bot(bot)
        except ValueError as error:
            raise ValueError(f"agent {player.text!r}, bot: {error}") from None
        return Simulator(worlds, bot, judge, threads=threads, name=player.text)
    network_, search = load_network(player, game, players)
    if "ablation" in player.options:
        network_.set_ablation(player.options["ablation"])
    if player.kind == "policy":
        temperature = number(float, player.options.get("temperature", "0"), "temperature")
        return Policy(network_, temperature, name=player.text)
    changes: dict[str, Any] = {"lanes": lanes}
    if "value_scale" in player.options:
        changes["value_scale"] = number(float, player.options["value_scale"], "value_scale")
    if "simulations" in player.options:
        changes["simulations"] = number(int, player.options["simulations"], "simulations")
    if "algorithm" in player.options:
        changes["algorithm"] = player.options["algorithm"]
    search = replace(search, **changes)
    candidates = search.algorithm == "gumbel" and search.max_considered > 1 and not search.rescale_values
    if candidates and search.simulations % 2 == 0:
        search = replace(search, leaves=max(2, search.leaves))  # of two of them: the same search in half the calls
    worth_it = search.simulations >= _WORTH_COMPILING
    bf16 = player.options.get("bf16", "on" if _in_bf16(search) else "off")
    require(bf16 in ("on", "off"), f"agent {player.text!r}, bf16", "on or off", bf16)
    key, known = f"agent {player.text!r}, backend", ("native", "eager", "compiled", "compiled_dynamic")
    backend = player.options.get("backend", known[0])
    require(backend in known, key, f"one of {', '.join(known)}", backend)
    search = replace(search, backend=player.options.get("backend", "auto"), bf16=bf16 == "on")
    otherwise = "compiled_dynamic" if worth_it else "eager"
    search = replace(search, backend=resolve_backend(network_, search, otherwise, key))
    return Searcher(network_, search, batch, name=player.text)


def load_network(player: AgentSpec, game: str, players: int) -> tuple[Network, SearchConfig]:
    """The network of a checkpoint, and the search it was trained with."""
    found = _weights(player)
    agent = found.agent
    require(agent["game"] == game, f"agent {player.text!r}, game", f"{game} as in this match", agent["game"])
    version = env.make(game, 1, players).info.version
    known = agent.get("game_version", version)
    require(known == version, f"agent {player.text!r}, version of {game}", f"{version} as it is now", known)
    counts = agent.get("player_counts", [agent["players"]])
    known = counts[0] if len(counts) == 1 else f"one of {', '.join(map(str, counts))}"
    require(players in counts, f"agent {player.text!r}, players", f"{players} as in this match", known)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = _fill(ModelConfig, agent["model"])
    weights = Network(GameSpec.of(game, max(counts)), model).weights_for(players, found.ema or found.weights)
    network = Network(GameSpec.of(game, players), model).to(device).eval()
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:  # it lists what differs
        reason = " ".join(str(error).split())
        raise ValueError(
            f"agent {player.text!r}: its weights are of another version of the network: {reason}"
        ) from None
    return network, _trained_search(agent)


def _trained_search(agent: dict[str, Any]) -> SearchConfig:
    """What a checkpoint was trained with."""
    search: SearchConfig = _fill(SearchConfig, agent.get("search", {}))
    return search


def _in_bf16(search: SearchConfig) -> bool:
    """By default: as in training, and in long searches."""
    return search.bf16 or (search.simulations >= _WORTH_COMPILING and _has_bf16())


def _has_bf16() -> bool:
    """Whether the device multiplies in bfloat16, and does not just pretend to."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    there = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return any(found() for found in there if found is not None)


def _fill(kind: type[Any], values: dict[str, Any]) -> Any:
    """A configuration from a checkpoint; keys that have gone since are an error that names them."""
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(values) - known)
    require(not unknown, f"checkpoint's {kind.__name__}", f"keys among {', '.join(sorted(known))}", unknown)
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), values))


def _weights(player: AgentSpec) -> checkpoint.Weights:
    path = Path(player.what)
    if "iteration" in player.options:
        iteration = _numbers(player)(int, player.options["iteration"], "iteration")
        path = path / checkpoint.CHECKPOINTS / f"{iteration:06d}"
    return checkpoint.load_weights(path)


def _numbers(player: AgentSpec) -> Callable[..., Any]:
    def number(kind: type[Any], text: str, name: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"agent {player.text!r}, {name}: expected a number, got {text!r}") from None

    return number
