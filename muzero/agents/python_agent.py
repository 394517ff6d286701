"""Agents of one's own on the command line: `python:MODULE:CLASS,option=value`, a class with the method `act`."""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.agents.situation import Agent, Situation
from muzero.config.fields import require
from muzero.config.parts import PREFIX, import_part, split_path

_WORDS = {"on": True, "true": True, "off": False, "false": False}


class PythonAgent:
    """Agent of the user's own class, whose actions are checked.

    Args:
      agent: object of the user's class.
      name: text that names it.
    """

    def __init__(self, agent: Agent, name: str) -> None:
        self.agent, self.name = agent, name

    def act(self, situation: Situation) -> NDArray[np.int64]:
        """See `Agent`; an error names the agent, and the action or the line of code that is wrong."""
        key = f"agent {self.name!r}"
        try:
            actions = np.asarray(self.agent.act(situation))
        except Exception as error:
            raise ValueError(f"{key}: act raised {_told(error)}") from error
        count = len(situation.obs)
        whole = actions.dtype.kind in "iu" and actions.shape == (count,)
        require(whole, f"{key}, act", f"{count} integers, one per decision", f"{actions.dtype} {list(actions.shape)}")
        known = (actions >= 0) & (actions < situation.legal.shape[1])
        legal = known & situation.legal[np.arange(count), np.where(known, actions, 0)]
        if not legal.all():
            row, names = int(np.flatnonzero(~legal)[0]), situation.tables.action_names
            allowed = ", ".join(names[action] for action in np.flatnonzero(situation.legal[row]))
            require(False, f"{key}, act", f"a legal action, one of {allowed}", int(actions[row]))
        return actions.astype(np.int64)


def make_python_agent(key: str, target: str, options: Mapping[str, str], game: str, players: int) -> PythonAgent:
    """Make the agent that an import path names.

    Parameters of the class called `game` and `players` are given those of the table; other parameters are options,
    converted to the type of their default.

    Args:
      key: name of the agent, for errors.
      target: module and class, `MODULE:CLASS`.
      options: options of the agent, as texts.
      game, players: table that it will play at.
    """
    kind = import_part(key, PREFIX + target)
    try:
        known = dict(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        raise ValueError(f"{key}: expected a class or function of Python's, got {kind!r}") from None
    given: dict[str, Any] = {"game": game, "players": players}
    given = {name: value for name, value in given.items() if name in known}
    own = [name for name in known if name not in given]
    for name, text in options.items():
        require(name in own, key, f"options among {', '.join(own) or '(it has none)'}", f"{name}={text}")
        given[name] = _converted(f"{key}, {name}", text, known[name].default)
    try:
        agent = kind(**given)
    except Exception as error:
        raise ValueError(f"{key}: making it raised {_told(error)}") from error
    require(callable(getattr(agent, "act", None)), key, "a class with the method act(situation)", type(agent).__name__)
    text = ",".join([PREFIX + target, *(f"{name}={value}" for name, value in options.items())])
    return PythonAgent(agent, text)


def code_fingerprint(key: str, target: str) -> str:
    """Hash of the file of an agent's module, so that games of changed code are not taken for its own."""
    import_part(key, PREFIX + target)
    path = getattr(sys.modules[split_path(key, PREFIX + target)[0]], "__file__", None)
    return hashlib.sha256(Path(path).read_bytes() if path else target.encode()).hexdigest()[:16]


def _converted(key: str, text: str, default: Any) -> Any:
    """Value of an option, of the type of the parameter's default."""
    if isinstance(default, bool):
        require(text in _WORDS, key, "on or off", text)
        return _WORDS[text]
    if not isinstance(default, int | float):
        return text
    convert: Callable[[str], Any] = type(default)
    try:
        return convert(text)
    except ValueError:
        raise ValueError(f"{key}: expected a number, got {text!r}") from None


def _told(error: Exception) -> str:
    """Error of the user's code in one line, with the place where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {text} ({last.filename}, line {last.lineno})"
