"""Review of a finished game: the decisions of a seat that cost most, and the ledger of luck and skill.

A decision is judged by what its player knew. It is a mistake only where that is sure: a search with ten times the
usual simulations prefers another action (where a trained agent for the game is offered), and in ten times the usual
sampled worlds that action is better than the one played by three standard errors and by half a percent of the win. The
action is chosen and its gain measured in different worlds, so that the choice does not flatter it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import env
from env.game_record import GameRecord
from muzero.agents.agent_spec import load_value_model
from muzero.agents.value_model import ValueModel
from muzero.arena.ledger import Ledger
from muzero.arena.live_game import SIMULATION
from muzero.arena.playouts import PlayoutAnalyst, Playouts
from muzero.arena.position import Position

if TYPE_CHECKING:
    from muzero.arena.analysis import Analyst

DEPTH = 10  # times the usual simulations and worlds
_BATCH = 8  # decisions that are judged at a time
_STRETCH = 16  # decisions of all seats after which a piece of a review ends, so that games in play go on
_SURE = 3.0  # standard errors
_LEAST = 0.005  # shares of the win that a mistake costs at least
_SHOWN = 8  # actions that a judgement lists


@dataclass(frozen=True)
class Judgement:
    """Decision that was judged.

    Attributes:
      turn: number of decisions before it.
      played, best: action that was played, and the one that is preferred.
      cost: share of the win that the decision cost; 0 if nothing better is known.
      error: standard error of the cost.
      sure: whether the decision was a mistake beyond doubt.
      actions: what is known about the best actions: action, name, chance to win, standard error of the difference to
        the preferred one.
    """

    turn: int
    played: int
    best: int
    cost: float
    error: float
    sure: bool
    actions: tuple[dict[str, Any], ...] = ()


class Review:
    """Review of one seat, done piece by piece: `step` until it returns False.

    Args:
      record: finished game.
      seat: seat that is reviewed.
      playouts: analysis with the real rules.
      analyst: agent with search at ten times its usual simulations; None if there is none for the table.
    """

    def __init__(self, record: GameRecord, seat: int, playouts: PlayoutAnalyst, analyst: Analyst | None) -> None:
        self.record, self.seat, self.playouts, self.analyst = record, seat, playouts, analyst
        self.judgements: list[Judgement] = []
        self.alternatives = 0  # decisions of the seat with more than one legal action
        self._ledger: Ledger | None = None
        self._waiting: list[tuple[int, env.VecEnv]] = []

    @property
    def ledger(self) -> Ledger:
        """Ledger of luck and skill; its value function is made at the first use."""
        if self._ledger is None:
            self._ledger = Ledger(self.record, self._model())
        return self._ledger

    @property
    def complete(self) -> bool:
        """Whether everything is judged."""
        return self._ledger is not None and self._ledger.complete and not self._waiting

    def step(self) -> bool:
        """Do the next piece of work; tell whether more is left."""
        ledger, entered = self.ledger, 0
        while not ledger.complete and entered < _STRETCH and len(self._waiting) < _BATCH:
            tables = ledger.tables
            if int(tables.to_play[0]) == self.seat and int(tables.legal[0].sum()) > 1:
                self._waiting.append((len(ledger.entries), _copy(tables)))
                self.alternatives += 1
            ledger.advance()
            entered += 1
        if len(self._waiting) >= _BATCH or ledger.complete:
            self._judge()
        return not self.complete

    def content(self) -> dict[str, Any]:
        """The review so far, ready for JSON; the ledger only once it is complete."""
        names = env.describe(self.record.game).action_names
        mistakes = sorted((each for each in self.judgements if each.sure), key=lambda each: -each.cost)
        return {
            "seat": self.seat,
            "progress": [len(self._ledger.entries) if self._ledger else 0, len(self.record.actions)],
            "complete": self.complete,
            "judge": f"{self.analyst.spec.target} and simulation" if self.analyst else SIMULATION,
            "judged": len(self.judgements),
            "agreed": sum(each.played == each.best for each in self.judgements),
            "mistakes": [
                {
                    "turn": each.turn,
                    "played": each.played,
                    "played_name": names[each.played],
                    "best": each.best,
                    "best_name": names[each.best],
                    "cost": round(each.cost, 4),
                    "error": round(each.error, 4),
                    "actions": list(each.actions),
                }
                for each in mistakes
            ],
            "ledger": self.ledger.content() if self.complete else None,
        }

    # ---- parts -------------------------------------------------------------------------------------------

    def _model(self) -> ValueModel:
        """Value function of the ledger: the network's where there is one, else fitted to what players see."""
        players, rules = len(self.record.agents), self.record.rules
        if self.analyst is not None:
            plain = self.analyst.spec.without("simulations", "bf16", "value_scale")
            return load_value_model(str(plain), self.record.game, players, rules)
        return self.playouts.model(env.make(self.record.game, 1, players, rules))

    def _judge(self) -> None:
        """Judge the decisions that wait."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        reports: list[dict[str, Any] | None] = [None] * len(waiting)
        if self.analyst is not None:
            reports = list(self.analyst.analyse([Position.at(tables) for _, tables in waiting]))
        for (turn, tables), report in zip(waiting, reports, strict=True):
            self.judgements.append(judge(tables, turn, self.record.actions[turn], self.playouts, report))


def judge(
    tables: env.VecEnv, turn: int, played: int, playouts: PlayoutAnalyst, report: dict[str, Any] | None
) -> Judgement:
    """Judge one decision.

    Args:
      tables: single table before the decision.
      turn: number of decisions before it.
      played: action that was played.
      playouts: analysis with the real rules.
      report: report of a trained agent about the position; None if there is none.
    """
    if report is not None and not _prefers_another(report, played):
        return Judgement(turn, played, played, 0.0, 0.0, False)
    if report is None:  # a short look spares the long one where nothing is better
        first = playouts.play_out(tables, turn)
        gain, error = first.gain(first.best(), played)
        if gain <= error:
            return Judgement(turn, played, played, 0.0, 0.0, False)
    found = playouts.play_out(tables, (turn + 1) << 32, DEPTH * playouts.worlds)
    chosen, measured = slice(0, None, 2), slice(1, None, 2)
    if report is not None:
        best, measured = int(report["action"]), slice(None)
    else:
        best = found.legal[int(found.own()[chosen].mean(0).argmax())]
    cost, error = found.gain(best, played, measured)
    sure = cost > _SURE * error and cost >= _LEAST
    return Judgement(turn, played, best, max(0.0, cost), error, sure, _listed(tables, found, best, played))


def _prefers_another(report: dict[str, Any], played: int) -> bool:
    """Tell whether a search chose another action and found it better, or did not even try the one played."""
    values = {each["action"]: each["q"] for each in report["actions"]}
    best, own = values[report["action"]], values[played]
    return bool(report["action"] != played and (best is None or own is None or best > own))


def _listed(tables: env.VecEnv, found: Playouts, best: int, played: int) -> tuple[dict[str, Any], ...]:
    """The most promising actions, with the preferred and the played one among them."""
    mean = found.own().mean(0)
    order = sorted(found.legal, key=lambda a: (a not in (best, played), -mean[found.legal.index(a)]))[:_SHOWN]
    return tuple(
        {
            "action": action,
            "name": tables.action_names[action],
            "chance": round(float(mean[found.legal.index(action)]), 4),
            "error": round(found.gain(action, best)[1], 4),
        }
        for action in sorted(order, key=lambda a: -mean[found.legal.index(a)])
    )


def _copy(tables: env.VecEnv) -> env.VecEnv:
    """Single table in the same state."""
    copy = env.make(tables.game, 1, tables.num_players, tables.rules, auto_reset=False)
    copy.copy_from(tables, np.zeros(1, np.int64))
    return copy
