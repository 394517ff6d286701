"""Agents that search with the real rules, made from the options of their description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import env
from env.world_search import WorldSearch
from muzero.agents.expectimax import Expectimax
from muzero.agents.simulator import Simulator
from muzero.agents.situation import Agent
from muzero.agents.tree_simulator import TreeSimulator
from muzero.config.fields import require
from muzero.model.interface import BaseNetwork

if TYPE_CHECKING:
    from muzero.search.judge import NativeValues

TREES = ("rollout", "ismcts", "pimc", "expectimax")
"""Kinds of search with the real rules, the default first; `rollout` has no tree."""

TREE_OPTIONS = ("exploration", "until", "opponents", "seed", "observers", "worlds")
"""Options of the searches that have a tree over sampled worlds."""

_WORLDS = 16  # worlds of PIMC if it is not told how many
# Kinds of search that have an option.
_KINDS = {
    **dict.fromkeys(TREE_OPTIONS, ("ismcts", "pimc")),
    "observers": ("ismcts",),
    "worlds": ("pimc",),
    "bot": ("rollout", "ismcts", "pimc"),
    "network": ("rollout", "expectimax"),
    "tree": TREES,
}


def make_simulator(
    key: str,
    worlds: int,
    options: Mapping[str, str],
    network: BaseNetwork | None,
    native: NativeValues | None,
    tables: env.VecEnv,
    threads: int,
    name: str,
) -> Agent:
    """Make the agent that `simulator:WORLDS,...` describes; an error names options that do not go together.

    Args:
      key: name of the agent in errors.
      worlds: number of worlds (for trees: of walks) per decision.
      options: values of the options by name, as text.
      network: network that evaluates positions, None for none.
      native: native judge of positions by the network, None for none.
      tables: a table of the game.
      threads: number of threads.
      name: name of the agent.
    """
    tree = options.get("tree", TREES[0])
    require(tree in TREES, f"{key}, tree", f"one of {', '.join(TREES)}", tree)
    for option, value in options.items():
        kinds = _KINDS[option]
        require(tree in kinds, f"{key}, {option}", f"none with tree={tree}, only with {' or '.join(kinds)}", value)
    hides = network is not None and network.spec.private
    reason = f"none in {tables.game}, where the next one to decide sees another hand"
    require(not hides, f"{key}, network", reason, options.get("network"))
    for option in ("bot", "opponents"):
        _require_bot(key, option, options, tables)
    bot = options.get("bot", tables.default_bot)
    try:
        if tree == "expectimax":
            require(network is not None, "network", "a network with tree=expectimax", None)
            assert network is not None
            return Expectimax(network, worlds, native, name=name)
        if tree == "rollout":
            return Simulator(worlds, bot, network, threads=threads, name=name)
        search = WorldSearch(iterations=worlds, **_tree_settings(tree, worlds, options))
    except ValueError as error:
        raise ValueError(f"{key}, {error}") from None
    return TreeSimulator(search, bot, options.get("opponents"), threads=threads, name=name)


def _tree_settings(tree: str, worlds: int, options: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a search over sampled worlds, from the options as text."""
    observers = options.get("observers", "one")
    require(observers in ("one", "all"), "observers", "one or all", observers)
    found: dict[str, Any] = {"own_views": observers == "all"}
    if tree == "pimc":
        found["worlds"] = min(_WORLDS, worlds)
    kinds: dict[str, type[Any]] = {"worlds": int, "exploration": float, "until": str, "seed": int}
    for option, kind in kinds.items():
        if option in options:
            try:
                found[option] = kind(options[option])
            except ValueError:
                raise ValueError(f"{option}: expected a number, got {options[option]!r}") from None
    require(tree != "pimc" or found["worlds"] >= 1, "worlds", "1 or more with tree=pimc", found.get("worlds"))
    return found


def _require_bot(key: str, option: str, options: Mapping[str, str], tables: env.VecEnv) -> None:
    """Refuse the name of a bot that the game does not have."""
    if option not in options:
        return
    try:
        tables.bot(options[option])
    except ValueError as error:
        raise ValueError(f"{key}, {option}: {error}") from None
