"""Texts that describe agents, taken apart: kind, target and options. `muzero.agents.agent_spec` explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muzero.agents.simulators import TREE_OPTIONS
from muzero.config.fields import require
from muzero.config.parts import split_path

_TREE_OPTIONS = ("value_scale", "value_visits", "visit_trust", "max_considered", "chance_source", "correct_luck")
SEARCH_OPTIONS = ("simulations", "algorithm", "backup", *_TREE_OPTIONS, "merge")
OPTIONS: dict[str, tuple[str, ...]] = {
    "random": (),
    "bot": (),
    "checkpoint": ("iteration", *SEARCH_OPTIONS, "ablation", "backend", "bf16", "imports"),
    "agent": (*SEARCH_OPTIONS, "ablation", "backend", "bf16"),
    "policy": ("iteration", "temperature", "ablation", "imports"),
    "simulator": ("bot", "network", "tree", *TREE_OPTIONS),
    "python": (),  # the parameters of the class
}


@dataclass(frozen=True)
class AgentSpec:
    """Description of an agent; `AgentSpec.parse(str(spec)) == spec`.

    Attributes:
      kind: kind of agent, one of `OPTIONS`.
      target: name of a bot (with its parameters), a path, or a number of worlds; "" for random.
      options: values of the options by name, in the order in which they are written.
    """

    kind: str
    target: str = ""
    options: dict[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        key = f"agent {str(self)!r}"
        require(self.kind in OPTIONS, key, f"one of {', '.join(f'{kind}:...' for kind in OPTIONS)}", self.kind)
        there = bool(self.target) == (self.kind != "random")
        require(there, key, "something after the colon, except for random", self.target)
        require(self.kind == "bot" or "," not in self.target, key, "no comma before the options", self.target)
        if self.kind == "python":
            split_path(key, f"python:{self.target}")
        for name, value in self.options.items():
            allowed = ", ".join(OPTIONS[self.kind]) or "none"
            known = self.kind == "python" or name in OPTIONS[self.kind]
            require(known, key, f"options among {allowed}", f"{name}={value}")
            require("," not in value, f"{key}, {name}", "a value without a comma", value)

    @staticmethod
    def of(kind: str, target: object = "", **options: object) -> AgentSpec:
        """Describe an agent: `AgentSpec.of("checkpoint", path, simulations=64)`; options that are None are left out."""
        return AgentSpec(kind, str(target)).with_options(**options)

    @staticmethod
    def parse(text: str) -> AgentSpec:
        """Read the text of a description; an error names unknown kinds and options."""
        kind, _, rest = text.partition(":")
        if kind == "bot":  # a bot's parameters are in brackets and have commas of their own
            return AgentSpec(kind, rest)
        target, *parts = rest.split(",")
        options: dict[str, str] = {}
        for part in parts:
            name, equals, value = part.partition("=")
            allowed = ", ".join(OPTIONS.get(kind, ())) or "none"
            require(bool(equals), f"agent {text!r}", f"options among {allowed}, as name=value", part)
            require(name not in options, f"agent {text!r}", "every option once", part)
            options[name] = value
        return AgentSpec(kind, target, options)

    def __str__(self) -> str:
        start = f"{self.kind}:{self.target}" if self.target else self.kind
        return ",".join([start, *(f"{name}={value}" for name, value in self.options.items())])

    def with_options(self, **options: object) -> AgentSpec:
        """Copy the description with other options, such as `simulations=64`; None leaves an option as it is."""
        given = {name: str(value) for name, value in options.items() if value is not None}
        return replace(self, options={**self.options, **given})

    def without(self, *names: str) -> AgentSpec:
        """Copy the description without some options."""
        return replace(self, options={name: value for name, value in self.options.items() if name not in names})

    def number(self, kind: type[Any], text: object, name: str) -> Any:
        """Convert a value of this description to a number; an error names the agent and the option."""
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"agent {str(self)!r}, {name}: expected a number, got {text!r}") from None


def join_options(parts: Sequence[str]) -> list[str]:
    """Texts of agents from a list that was split at every comma, those between options included."""
    agents: list[str] = []
    for part in parts:
        start = part.partition("=")[0]
        if ":" in start or start == "random" or not agents:
            agents.append(part)
        else:
            agents[-1] += f",{part}"
    return agents
