"""PettingZoo environments of the games: one table, one agent per seat.

    >>> import env.pettingzoo
    >>> table = env.pettingzoo.make(env.games()[0], num_players=2)
    >>> table.reset(seed=0)
    >>> for agent in table.agent_iter():
    ...     observation, reward, terminated, truncated, info = table.last()
    ...     over = terminated or truncated
    ...     table.step(None if over else table.action_space(agent).sample(observation["action_mask"]))

Only PettingZoo's AEC interface applies: the games are strictly turn-based, and each decision changes the situation of
the next player. So `is_parallelizable` is False, and PettingZoo refuses to convert a table to its parallel interface
(`aec_to_parallel`).
"""

from __future__ import annotations

from operator import index
from secrets import randbits
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

try:
    from gymnasium import logger, spaces
    from pettingzoo import AECEnv
except ImportError as error:
    raise ImportError("env.pettingzoo needs PettingZoo: pip install pettingzoo") from error

from env.description import GameDescription, Rules
from env.vector import SKIP, VecEnv
from env.vector import make as make_tables

RENDER_MODES = ["ansi", "human"]

Observation = dict[str, NDArray[Any]]


def make(
    game: str,
    num_players: int = 2,
    rules: Rules = "official",
    render_mode: str | None = None,
    counts: bool = True,
) -> TableEnv:
    """A table as a PettingZoo environment.

    Args:
      game: name of the game, one of `env.games()`.
      num_players: number of players, P; the agents are "player_0" to "player_{P-1}".
      rules: the name of a rule set or a mapping of options, as for `env.make`.
      render_mode: "ansi" (`render` returns text), "human" (every change of the table is printed) or None.
      counts: include the tokens that count unseen cards in observations.
    """
    return TableEnv(game, num_players, rules, render_mode, counts)


class TableEnv(AECEnv):  # type: ignore[misc]  # PettingZoo comes without types
    """One table; observation rows have W numbers, and there are A actions.

    An agent observes a dictionary of
      observation: [W] int16, what its seat may see, laid out as `tables.groups` says; each number is at least
        0 and below the vocabulary size of its field.
      action_mask: [A] int8, 1 where an action is legal; all 0 unless the agent is to move.
    Its info is public: the `phase` (kind of decision) the game is in, the agent's `score` and its `rank`.

    A turn may be several decisions, so `agent_selection` can stay the same from one step to the next. All
    agents finish together: truncated if the rules' cap on decisions was reached, else terminated.
    """

    def __init__(self, game: str, num_players: int, rules: Rules, render_mode: str | None, counts: bool) -> None:
        if render_mode not in [None, *RENDER_MODES]:
            raise ValueError(f"render_mode: expected {', '.join(RENDER_MODES)} or None, got {render_mode!r}")
        self.render_mode = render_mode
        self.tables: VecEnv = make_tables(game, 1, num_players, rules, auto_reset=False, counts=counts)
        self.metadata: dict[str, Any] = {
            "name": f"{game}_v{self.tables.info.version}",
            "render_modes": list(RENDER_MODES),
            "is_parallelizable": False,
        }
        self._seed: int | None = None
        self._deal = 0

        self.possible_agents = [f"player_{seat}" for seat in range(num_players)]
        self.agents: list[str] = []  # no agents until `reset`
        self.observation_spaces = {agent: _observation_space(self.tables.info) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(self.tables.num_actions) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Dict:
        """Space of `observe(agent)`."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Space of the A actions; `tables.action_names` names them."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Deals the first game of `seed`; without a seed, the next game of the last seed (a random one at first).

        `options` belongs to PettingZoo's interface; no game takes any.
        """
        if seed is None and self._seed is not None:
            self._deal += 1
        else:
            self._seed, self._deal = randbits(63) if seed is None else index(seed), 0
        self.tables.reset(self._seed, deals=[self._deal])
        self.agents = self.possible_agents.copy()
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._update()

    def observe(self, agent: str) -> Observation:
        """Observation and action mask of an agent; see the class."""
        seat = self.possible_agents.index(agent)
        legal = self.tables.legal[0] & (seat == self.tables.to_play[0])
        return {"observation": self.tables.observe(seat)[0], "action_mask": legal.astype(np.int8)}

    def step(self, action: SupportsIndex | None) -> None:
        """Carries out the decision of `agent_selection`: None if its game is over, else a legal action.

        An illegal action is a ValueError, and nothing has happened.
        """
        if not self.agents:
            raise RuntimeError("nobody is at the table: call reset first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if action is None or index(action) == SKIP:  # with SKIP the core would leave the table as it is
            raise ValueError(f"{agent} is to move: expected a legal action, got {action}")
        self.tables.step([index(action)])
        self._cumulative_rewards[agent] = 0.0
        self._update()
        self._accumulate_rewards()

    def render(self) -> str | None:
        """Text of the table as a spectator sees it, without hidden cards: returned ("ansi") or printed ("human")."""
        if self.render_mode is None:
            logger.warn("render() needs a render_mode, which is chosen when the table is made")
            return None
        text = self.tables.render(0)
        if self.render_mode == "ansi":
            return text
        print(text)
        return None

    def close(self) -> None:
        """Does nothing: a table holds no resources."""

    def _update(self) -> None:
        """Fills the agents' dictionaries from the table."""
        tables = self.tables
        done, truncated = bool(tables.done[0]), bool(tables.truncated[0])
        phase = tables.phase_names[tables.phase[0]]
        scores, ranks = tables.scores[0].tolist(), tables.ranks[0].tolist()
        self.agent_selection = self.agents[tables.to_play[0]]
        self.rewards = dict(zip(self.agents, tables.rewards[0].tolist(), strict=True))
        self.terminations = dict.fromkeys(self.agents, done and not truncated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self.infos: dict[str, dict[str, Any]] = {
            agent: {"phase": phase, "score": score, "rank": rank}
            for agent, score, rank in zip(self.agents, scores, ranks, strict=True)
        }
        if self.render_mode == "human":
            self.render()


def _observation_space(info: GameDescription) -> spaces.Dict:
    """Space of rows [W], bounded by the vocabulary of the field at each place, and masks [A]."""
    largest = [field.vocabulary - 1 for group in info.groups for _ in range(group.count) for field in group.fields]
    row = spaces.Box(np.zeros(info.width, np.int16), np.asarray(largest, np.int16), dtype=np.int16)
    mask = spaces.Box(0, 1, (info.num_actions,), np.int8)
    return spaces.Dict({"observation": row, "action_mask": mask})
