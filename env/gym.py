"""Gymnasium environments of the games: one seat learns, bots sit in the others.

    >>> import env.gym
    >>> tables = env.gym.make_vec("skyjo", num_envs=8, bots=["greedy"], rules={"episode": "round"})
    >>> obs, info = tables.reset(seed=0)
    >>> obs, rewards, terminated, truncated, info = tables.step(info["action_mask"].argmax(1))

`info["action_mask"]` and `action_masks()` say which actions are legal; sb3-contrib's MaskablePPO reads the latter
(examples/maskable_ppo.py). An illegal action is an error; with `illegal="lose"` it ends the episode with reward -1, for
learners that know no masks. Observations are rows of integers, which `env.describe(game).decode(row)` explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import randbits
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
except ImportError as error:
    raise ImportError("env.gym needs Gymnasium: pip install gymnasium") from error

from env.description import Rules
from env.vector import SKIP, VecEnv
from env.vector import make as make_tables

ILLEGAL = ("error", "lose")
RENDER_MODES = ["ansi", "svg"]
Observations = NDArray[np.int16]
Info = dict[str, Any]


def make(game: str, num_players: int = 2, rules: Rules = "official", **options: Any) -> GymEnv:
    """One table as a Gymnasium environment; the options are those of `GymEnv`."""
    return GymEnv(game, num_players, rules, **options)


def make_vec(game: str, num_envs: int, num_players: int = 2, rules: Rules = "official", **options: Any) -> GymVecEnv:
    """Tables as a Gymnasium vector environment; the options are those of `GymVecEnv`."""
    return GymVecEnv(game, num_envs, num_players, rules, **options)


class GymVecEnv(VectorEnv[Observations, NDArray[Any], NDArray[Any]]):
    """Tables in lockstep, seen from the learner's seat; finished tables start again in the same step.

    Args:
      game: name of the game, one of `env.games()`.
      num_envs: number of tables, B.
      num_players: players at each table.
      rules: a preset's name or a mapping of options, as for `env.make`.
      seat: the learner's seat.
      bots: names of the bots in the other seats, in their order, or one for all; by default the game's default bot.
      illegal: "error" refuses an illegal action; "lose" ends the episode with reward -1.
      counts: include the tokens that count unseen cards in observations.
      threads: threads that share the tables.

    Attributes:
      tables: the tables; they know all hidden cards.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 4, "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        game: str,
        num_envs: int,
        num_players: int = 2,
        rules: Rules = "official",
        *,
        seat: int = 0,
        bots: Sequence[str] = (),
        illegal: str = "error",
        counts: bool = True,
        threads: int = 1,
    ) -> None:
        tables = make_tables(game, num_envs, num_players, rules, threads=threads, auto_reset=False, counts=counts)
        others = num_players - 1
        if not 0 <= seat < num_players:
            raise ValueError(f"seat: expected 0 to {others}, got {seat}")
        if illegal not in ILLEGAL:
            raise ValueError(f"illegal: expected {' or '.join(ILLEGAL)}, got {illegal!r}")
        names = [bots] if isinstance(bots, str) else list(bots) or [tables.default_bot]
        if len(names) not in (1, others):
            raise ValueError(f"bots: expected 1 or {others} names, got {names}")
        self.tables, self.seat, self.illegal, self.num_envs = tables, seat, illegal, num_envs
        seated: list[Any] = [tables.bot(name) for name in (names * others)[:others]]
        self._bots = [*seated[:seat], None, *seated[seat:]]
        self._episodes = np.zeros(num_envs, np.int64)  # number of each table's episode since the reset
        self._seed = 0
        self.single_observation_space = observation_space(tables)
        self.single_action_space = spaces.Discrete(tables.info.num_actions)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observations, Info]:
        """Start new episodes at all tables; the same seed gives the same ones."""
        super().reset(seed=seed)
        self._seed = randbits(32) if seed is None else int(seed)
        self._episodes[:] = 0
        self._deal(np.arange(self.num_envs))
        self._let_bots_play()
        return self._seen(), self._info()

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Observations, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Info]:
        """Carry out the learner's action at each table, and the bots' until it is the learner's turn again."""
        chosen = np.asarray(actions, np.int64)
        if chosen.shape != (self.num_envs,):
            raise ValueError(f"actions: expected {self.num_envs} numbers, got an array of shape {chosen.shape}")
        inside = (chosen >= 0) & (chosen < self.tables.info.num_actions)
        legal = inside & self.tables.legal[np.arange(self.num_envs), np.where(inside, chosen, 0)]
        if self.illegal == "error" and not legal.all():
            table = int(np.flatnonzero(~legal)[0])
            names = [self.tables.action_names[a] for a in np.flatnonzero(self.tables.legal[table])]
            raise ValueError(f"table {table}: expected a legal action, one of {', '.join(names)}, got {chosen[table]}")
        self.tables.step(np.where(legal, chosen, SKIP))
        rewards = np.where(legal, self.tables.rewards[:, self.seat], -1.0).astype(np.float64)
        rewards += self._let_bots_play(~legal)
        over = ~legal | ~self.tables.legal.any(1)
        truncated = over & legal & self.tables.truncated
        terminated = over & ~truncated
        info: Info = {}
        if over.any():
            last = self._seen()
            finished = np.empty(self.num_envs, object)
            for row in np.flatnonzero(over):
                finished[row] = last[row]
            info |= {"final_obs": finished, "_final_obs": over.copy()}
            ranks = np.where(legal, self.tables.ranks[:, self.seat], self.tables.num_players)
            info |= {"final_info": {"rank": ranks.copy(), "_rank": over.copy()}, "_final_info": over.copy()}
            self._deal(np.flatnonzero(over))
            self._let_bots_play()
        return self._seen(), rewards, terminated, truncated, {**self._info(), **info}

    def action_masks(self) -> NDArray[np.bool_]:
        """Legal actions [B, A] of the learner."""
        return self.tables.legal.copy()

    def render(self) -> tuple[str, ...]:
        """Text of every table as the learner sees it."""
        return tuple(self.tables.render(table, self.seat) for table in range(self.num_envs))

    def _deal(self, rows: NDArray[np.int64]) -> None:
        """Start new episodes at some tables: deals that no other table or episode of this seed has."""
        deals = self._episodes[rows] * self.num_envs + rows
        self._episodes[rows] += 1
        self.tables.reset(self._seed, deals=deals.tolist(), tables=rows.tolist())

    def _let_bots_play(self, stop: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Let bots decide until the learner is to move, except at tables to stop; returns the learner's rewards [B]."""
        gained = np.zeros(self.num_envs)
        while True:
            actions = self.tables.bot_actions(self._bots, self._seed)
            if stop is not None:
                actions[stop] = SKIP
            moved = actions != SKIP
            if not moved.any():
                return gained
            self.tables.step(actions)
            gained += np.where(moved, self.tables.rewards[:, self.seat], 0.0)

    def _seen(self) -> Observations:
        return self.tables.observe(self.seat).copy()

    def _info(self) -> Info:
        there = np.ones(self.num_envs, np.bool_)
        return {"action_mask": self.action_masks(), "_action_mask": there}


class GymEnv(gymnasium.Env[Observations, np.int64]):
    """One table, seen from the learner's seat.

    Args:
      game, num_players, rules: table, as for `GymVecEnv`.
      render_mode: "ansi" (`render` returns text), "svg" (a picture) or None.
      options: those of `GymVecEnv`.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        game: str,
        num_players: int = 2,
        rules: Rules = "official",
        *,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise ValueError(f"render_mode: expected one of {', '.join(RENDER_MODES)}, got {render_mode!r}")
        self.render_mode = render_mode
        self._vector = GymVecEnv(game, 1, num_players, rules, **options)
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observations, Info]:
        """Start a new episode; the same seed gives the same one."""
        super().reset(seed=seed)
        number = int(self.np_random.integers(2**32))  # Gymnasium's stream: later episodes differ, but are repeatable
        obs, info = self._vector.reset(seed=number)
        return obs[0], {"action_mask": info["action_mask"][0]}

    def step(self, action: Any) -> tuple[Observations, float, bool, bool, Info]:
        """Carry out the learner's action, and the bots' until it is the learner's turn again."""
        obs, rewards, terminated, truncated, info = self._vector.step(np.array([action]))
        over = bool(terminated[0] or truncated[0])
        told: Info = {"action_mask": info["action_mask"][0]}
        if over:
            told = {"action_mask": np.zeros_like(told["action_mask"]), "rank": int(info["final_info"]["rank"][0])}
        last = info["final_obs"][0] if over else obs[0]
        return last, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), told

    def action_masks(self) -> NDArray[np.bool_]:
        """Legal actions [A] of the learner, for sb3-contrib's MaskablePPO."""
        return np.asarray(self._vector.action_masks()[0])

    def render(self) -> Any:
        """Text or picture of the table as the learner sees it."""
        tables, seat = self._vector.tables, self._vector.seat
        return tables.draw(0, seat) if self.render_mode == "svg" else tables.render(0, seat)


def observation_space(tables: VecEnv) -> spaces.Box:
    """Space of the observation rows: integers from 0 up to the vocabulary of each field."""
    most = np.zeros(tables.info.width, np.int16)
    for group in tables.info.groups:
        fields = [field.vocabulary - 1 for field in group.fields]
        most[group.offset : group.offset + group.count * len(fields)] = fields * group.count
    return spaces.Box(np.zeros_like(most), most, dtype=np.int16)
