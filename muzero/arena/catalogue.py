"""Games and agents that an arena offers: a list made when the server starts, from which clients choose by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import env
from muzero.agents.agent_spec import AgentSpec, build, preferred_agents, resolve, trained_for
from muzero.agents.situation import Situation
from muzero.arena.levels import LevelLadder, read_levels
from muzero.arena.rule_sets import rule_set_of, rule_sets
from muzero.config.fields import require

_SIMULATIONS = (4, 16, 64)  # strengths in which a shipped agent is offered


@dataclass(frozen=True)
class Offer:
    """Agent that a seat can be given to.

    Attributes:
      name: name by which clients ask for it.
      spec: description of the agent; never sent to clients, because it may hold a path.
      game: game that it plays.
      players: number of players that its network is for; 0 for any.
      idea: how it plays, in words.
      level: its level among those of the game; 0 for none.
      blunders: share of its decisions that are drawn at random.
      rules: rule set that its network was trained by; "" for any.
    """

    name: str
    spec: AgentSpec
    game: str
    players: int
    idea: str
    level: int = 0
    blunders: float = 0.0
    rules: str = ""


class Catalogue:
    """Games and agents that are offered.

    Args:
      games: games that are offered.
      agents: texts of agents beside the games' bots; None for the trained agents that come with the project.

    Attributes:
      ladders: ladders of the levels that are offered.
    """

    def __init__(self, games: Sequence[str], agents: Sequence[str] | None = None) -> None:
        for game in games:
            require(game in env.games(), "games", f"some of {', '.join(env.games())}", game)
        require(bool(games), "games", "at least one game", list(games))
        self.games = list(games)
        self._built: list[AgentSpec] = []
        offers = [offer for text in (shipped() if agents is None else agents) for offer in self._trained(text)]
        for game in games:
            offers += [
                Offer(bot.name, AgentSpec.of("bot", bot.name), game, 0, bot.idea) for bot in env.describe(game).bots
            ]
        self.ladders = [each for each in read_levels() if each.game in games]
        self.offers = [offer for each in self.ladders for offer in _levels(each)] + offers

    def _trained(self, text: str) -> list[Offer]:
        """Offer of an agent that is given by its text; it is built once, so that errors show at the start."""
        spec = resolve(AgentSpec.parse(text))
        trained = trained_for(spec)
        if trained is None:
            require(spec.kind != "bot", "agents", "agents; bots are always offered", text)
            idea = {"random": "plays at random", "python": "a program of this server's own"}
            for game in self.games if spec.kind == "python" else ():  # errors of its code show at the start
                least = env.describe(game).min_players
                build(spec, game, least, batch=1).act(Situation.at(env.make(game, 1, least)))
            name = spec.target.rpartition(":")[2] if spec.kind == "python" else str(spec)
            doing = idea.get(spec.kind, "searches with the real rules")
            return [Offer(name, spec, game, 0, doing) for game in self.games]
        if trained["game"] not in self.games:
            return []
        weights = spec.without(*(name for name in spec.options if name != "iteration"))
        if weights not in self._built:  # other strengths of the same network need no second look
            build(spec, trained["game"], trained["players"], batch=1)
            self._built.append(weights)
        name = spec.target.rstrip("/").rpartition("/")[2]
        simulations = spec.options.get("simulations")
        name += f", {simulations} simulations" if simulations else ""
        game, players = trained["game"], trained["players"]
        rules = rule_set_of(game, players, trained["rules"])
        learned = "" if rules == next(iter(rule_sets(game, players))) else f", which has learned the rule set {rules}"
        return [Offer(name, spec, game, players, f"a trained network{learned}", rules=rules)]

    def find(self, game: str, name: str, players: int, rules: env.Rules = "official") -> Offer:
        """Offer by name for a game, number of players and rules; an error lists the names."""
        found = self.named(game, name, players, rules)
        fitting = "; ".join(each.name for each in self._fitting(game, players, rules))
        require(found is not None, "agent", f"one of {fitting}", name)
        assert found is not None
        return found

    def named(self, game: str, name: str, players: int, rules: env.Rules = "official") -> Offer | None:
        """Offer by name, as in `find`, or by the text of its agent, as in records of evaluations; None if none fits."""
        fitting = self._fitting(game, players, rules)
        return next(
            (each for each in fitting if name in (each.name, str(each.spec)) and not each.blunders), None
        ) or next((each for each in fitting if each.name == name), None)

    def _fitting(self, game: str, players: int, rules: env.Rules) -> list[Offer]:
        """Offers for a table; of levels those made for its number of players and its rule set, if there are any."""
        fitting = [each for each in self.offers if each.game == game and each.players in (0, players)]
        by = rule_set_of(game, players, rules)
        fitting = [each for each in fitting if not each.level or each.rules in ("", by)]
        own = any(each.level and each.players == players for each in fitting)
        return [each for each in fitting if not (own and each.level and each.players == 0)]

    def substitute(self, game: str) -> Offer:
        """Bot that plays for a person who has left."""
        default = env.describe(game).default_bot
        return next(each for each in self.offers if (each.game, each.name) == (game, default))

    def strongest(self, game: str, players: int, rules: env.Rules = "official") -> Offer:
        """Strongest agent for a table: its highest level, else a trained agent, else the default bot."""
        levels = [each for each in self._fitting(game, players, rules) if each.level]
        best = max(levels, key=lambda each: each.level, default=None)
        return best or self.analyst(game, players, rules) or self.substitute(game)

    def analyst(self, game: str, players: int, rules: env.Rules = "official") -> Offer | None:
        """Strongest offered agent that has learned this kind of table by its rule set; None if there is none."""
        by = rule_set_of(game, players, rules)
        able = [
            each
            for each in self.offers
            if (each.game, each.players, each.rules) == (game, players, by)
            if each.spec.kind in ("agent", "checkpoint") and not each.level
        ]
        return max(able, key=lambda each: int(each.spec.options.get("simulations", "16")), default=None)

    def describe(self) -> list[dict[str, Any]]:
        """Games, rules and agents as the lobby shows them."""
        return [self._describe(game) for game in self.games]

    def _describe(self, game: str) -> dict[str, Any]:
        info = env.describe(game)
        return {
            "name": game,
            "players": [info.min_players, info.max_players],
            "actions": list(info.action_names),
            "presets": rule_sets(game, info.min_players),
            "rules": [
                {"name": rule.name, "meaning": rule.meaning, "expected": rule.expected, "default": rule.default}
                for rule in info.rules
            ],
            "agents": [
                {
                    "name": offer.name,
                    "players": offer.players,
                    "idea": offer.idea,
                    "trained": offer.players > 0,
                    "level": offer.level,
                    "rules": offer.rules,
                }
                for offer in self.offers
                if offer.game == game
            ],
        }


def _levels(ladder: LevelLadder) -> list[Offer]:
    """Offers of the levels of a ladder."""
    found = []
    for level in ladder.levels:
        reach = f"Elo {level.elo:.0f}, {level.low:.0f} to {level.high:.0f}" if level.number > 1 else "a beginner, Elo 0"
        reach = f"the strongest, {reach}" if level.number == len(ladder.levels) else reach
        spec, blunders = resolve(level.spec), level.blunders
        rules = ladder.rules if ladder.players else ""  # bots and simulators play by any rules
        found.append(Offer(level.name, spec, ladder.game, ladder.players, reach, level.number, blunders, rules))
    return found


def shipped() -> list[str]:
    """Texts of the trained agents that come with the project, in several strengths, belief variants first."""
    return [f"agent:{name},simulations={number}" for name in preferred_agents() for number in _SIMULATIONS]
