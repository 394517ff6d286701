"""Decisions of agents for all tables of a server: one planner per agent, which searches for whoever waits together.

The event loop never waits for a search: searches run in one thread, and requests that arrive meanwhile are collected
for the next one. Reviews of finished games have a thread of their own, so that games in play do not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import env
from env.game_record import GameRecord
from muzero.agents.agent_spec import AgentSpec, build
from muzero.agents.blunders import blunder
from muzero.agents.situation import Agent, Situation
from muzero.arena.analysis import Analyst
from muzero.arena.catalogue import Offer
from muzero.arena.live_game import LiveGame
from muzero.arena.playouts import PlayoutAnalyst
from muzero.arena.position import Position
from muzero.arena.review import DEPTH, Review

Work = Callable[[list[Any]], list[Any]]
_SEARCHING = ("agent", "checkpoint")
_SIMULATIONS = "16"  # of an agent whose description does not say
_REVIEWED = 8  # positions of a review that are searched together


class Brain:
    """Agents of a server, and the thread in which they think.

    Args:
      batch: largest number of positions that a planner searches at a time.
    """

    def __init__(self, batch: int = 64) -> None:
        self.batch = batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="brain")
        self._analysts: dict[str, Analyst] = {}
        self._playouts, self._deep_playouts = PlayoutAnalyst(), PlayoutAnalyst()
        self._reviewer = ThreadPoolExecutor(1, thread_name_prefix="reviews")
        self._agents: dict[tuple[str, str, int], Agent] = {}
        self._waiting: dict[tuple[Any, ...], list[tuple[Any, asyncio.Future[Any]]]] = {}
        self._works: dict[tuple[Any, ...], Work] = {}
        self._task: asyncio.Task[None] | None = None

    async def decide(self, offer: Offer, live: LiveGame) -> int:
        """Action of an agent at a table."""
        drawn = blunder(np.array(live.legal), int(live.tables.decision_keys()[0]), offer.blunders)
        if drawn is not None:
            return drawn
        if offer.spec.kind == "bot":  # microseconds
            bot = live.tables.bot(offer.spec.target)
            return int(live.tables.bot_actions([bot] * live.players)[0])
        if offer.spec.kind in _SEARCHING:
            analyst = self._analyst(offer.spec, self.batch)
            key = int(live.tables.decision_keys()[0])

            def search(given: list[Any]) -> list[Any]:
                return analyst.act([position for position, _ in given], [key for _, key in given])

            return int(await self._ask(("act", str(offer.spec), live.players), search, (_seen(live), key)))
        tables = _copy(live)

        def act(given: list[Any]) -> list[Any]:
            return [int(self._agent(offer, live).act(Situation.at(each))[0]) for each in given]

        return int(await self._ask(("agent", str(offer.spec), live.players), act, tables))

    async def analyse(self, offer: Offer | None, live: LiveGame) -> dict[str, Any]:
        """Report about the position at a table, from the seat of its player to move.

        Args:
          offer: agent that is asked; None for a simulation with the real rules.
          live: game at the table.
        """
        report: dict[str, Any]
        if offer is None:
            report = await self._ask(("analyse",), self._playouts.analyse, _copy(live))
            return report
        analyst, position = self._analyst(offer.spec, self.batch), Position.at(live.tables)
        report = await self._ask(("analyse", str(offer.spec), live.players), analyst.analyse, position)
        return report

    def review(self, record: GameRecord, seat: int, offer: Offer | None) -> Review:
        """Review of a seat in a finished game, whose pieces are done by `work`.

        Args:
          record: finished game.
          seat: seat that is reviewed.
          offer: agent that judges beside the simulation with the real rules; None for no agent.
        """
        analyst = None
        if offer is not None:
            simulations = DEPTH * int(offer.spec.options.get("simulations", _SIMULATIONS))
            deep = offer.spec.without("bf16").with_options(simulations=simulations)
            analyst = self._analyst(deep, _REVIEWED)
        return Review(record, seat, self._deep_playouts, analyst)

    async def work(self, piece: Callable[[], Any]) -> None:
        """Do a piece of a review, in a thread beside the one that plays."""
        await asyncio.get_running_loop().run_in_executor(self._reviewer, piece)

    def close(self) -> None:
        """Stop thinking; decisions that wait are cancelled."""
        if self._task:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._reviewer.shutdown(wait=False, cancel_futures=True)

    # ---- the thread --------------------------------------------------------------------------------------

    async def _ask(self, kind: tuple[Any, ...], work: Work, what: Any) -> Any:
        """Result of `work` for `what`, which is done together with all that waits for the same kind of work."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._works[kind] = work
        self._waiting.setdefault(kind, []).append((what, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        """Do what waits, kind by kind, until nothing waits."""
        await asyncio.sleep(0)  # tables that move at the same moment are searched together
        while self._waiting:
            kind, waiting = next(iter(self._waiting.items()))
            del self._waiting[kind]
            loop = asyncio.get_running_loop()
            try:
                found = await loop.run_in_executor(self._thread, self._works[kind], [what for what, _ in waiting])
            except Exception as error:  # whoever waits is told, the others go on
                for _, future in waiting:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(waiting, found, strict=True):
                if not future.done():
                    future.set_result(result)

    def _analyst(self, spec: AgentSpec, batch: int) -> Analyst:
        key = str(spec)
        if key not in self._analysts:
            self._analysts[key] = Analyst(spec, batch)
        return self._analysts[key]

    def _agent(self, offer: Offer, live: LiveGame) -> Agent:
        key = (str(offer.spec), live.game, live.players)
        if key not in self._agents:
            self._agents[key] = build(offer.spec, live.game, live.players, batch=1)
        return self._agents[key]


def _seen(live: LiveGame) -> Position:
    """Position at a table, for an agent that only wants to act there."""
    tables = live.tables
    return Position(tables.info, tables.obs[0].copy(), tuple(live.legal), int(tables.phase[0]), live.to_play)


def _copy(live: LiveGame) -> env.VecEnv:
    """Copy of a table for the thread, while the event loop reads the original."""
    tables = env.make(live.game, 1, live.players, live.tables.rules, auto_reset=False)
    tables.copy_from(live.tables, [0])
    return tables
