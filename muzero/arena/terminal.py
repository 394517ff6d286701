"""Play in a terminal against any agents; `?` shows what a trained agent, or a simulation, would do, and why.

    python -m muzero.play [game=skyjo] [you=0] [opponents=AGENT] [key=value ...]

Keys:
{keys}

Agents:
{agents}
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import env
from env.fair_deal import FairDeal
from env.play import Leave, find_action, help_text, menu
from muzero.agents import agent_spec
from muzero.agents.agent_spec import AgentSpec, build, join_options, resolve, trained_for
from muzero.agents.situation import Agent, Situation
from muzero.arena.analysis import Analyst, default_analyst
from muzero.arena.live_game import SIMULATION, Event, LiveGame, RoundEnd
from muzero.arena.playouts import PlayoutAnalyst
from muzero.arena.position import Position, card_names, exact_belief
from muzero.arena.rule_sets import rule_set_of, rule_sets
from muzero.config.fields import require
from muzero.matches.arguments import describe_keys, parse_overrides
from muzero.runs import hints

_ACTIONS = 12  # that advice lists

HELP = {
    "game": "game to play; by default the one that an opponent was trained for, else the first that agents know",
    "you": "your seat, counted from 0; -1 to watch",
    "players": "players at the table; by default those of the opponents named, or of the shipped agent, or 2",
    "opponents": "one agent for all other seats, or [AGENT,AGENT] for each; by default the one shipped for the game, "
    "else its default bot",
    "adviser": "agent with search that answers ?; by default an opponent that can, else the one shipped for the game, "
    "else a simulation with the real rules",
    "rules": "a named rule set, or options, such as rules.target=50; docs/games/GAME.md lists them; by default the "
    "rule set that the first trained opponent has learned, else the official one",
    "seed": "seed of the cards; by default a new one",
    "record": "file of the game record; by default runs/games/GAME-SEED.json",
}


@dataclass
class PlayConfig:
    """Settings of a game in a terminal; `HELP` explains them."""

    game: str = ""
    you: int = 0
    players: int = 0
    opponents: Any = ""
    adviser: str = ""
    rules: Any = field(default_factory=dict)
    seed: int | None = None
    record: str = ""


class Session:
    """One game of a person against agents.

    Everything printed during the game comes from the view of the person's seat (a spectator's if only agents play) and
    from public events.

    Attributes:
      live: the game.
      agents: [P] agents by seat, None where the person sits.
      names: [P] names of the players.
      adviser: agent that answers ?; None for a simulation with the real rules.
      ask: prints a prompt and returns the person's answer.
    """

    def __init__(
        self,
        live: LiveGame,
        agents: Sequence[Agent | None],
        names: Sequence[str],
        adviser: Analyst | None,
        ask: Callable[[str], str],
    ) -> None:
        self.live, self.agents, self.names, self.adviser, self.ask = live, agents, names, adviser, ask
        self.seat = agents.index(None) if None in agents else None
        self._simulation = PlayoutAnalyst()
        self.console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)

    def run(self) -> None:
        """Play the game to its end."""
        live = self.live
        self.say(f"{live.game}; SHA-256 of the deal's seed and nonce: {live.deal.commitment}", "dim")
        self.say("at the table: " + ", ".join(self.who(seat) for seat in range(live.players)))
        known = rule_sets(live.game, live.players)
        if len(known) > 1:
            by = rule_set_of(live.game, live.players, live.rules)
            self.say(f"rules: {by} (of {', '.join(known)}; rules=NAME chooses, docs/games/{live.game}.md explains)")
        self.say("docs/rules.md says in a minute how it is played; q leaves", "dim")
        while not live.done:
            self.show_table()
            if live.to_play == self.seat:
                event = live.act(self.decide())
                self.say(f"you: {event.text}", "green")
            else:
                event = self.play_turn(live.to_play)
            if event.round_end:
                self.show_round_end(event.round_end)
        self.show_result()

    def play_turn(self, mover: int) -> Event:
        """Let an agent decide until its turn or the round is over; print and return its last decision."""
        agent, texts = self.agents[mover], []
        assert agent is not None
        while True:
            event = self.live.act(int(agent.act(Situation.at(self.live.tables))[0]))
            texts.append(event.text)
            if self.live.done or event.round_end or self.live.to_play != mover:
                self.say(f"{self.who(mover)}: {'; '.join(texts)}", "yellow")
                return event

    def decide(self) -> int:
        """Ask the person until the answer is a legal action."""
        names, legal = self.live.info.action_names, self.live.legal
        phase = self.live.info.phase_names[int(self.live.tables.phase[0])]
        self.say(f"{phase}: {menu([names[action] for action in legal])}? (? for advice, h for help)", "bold green")
        while True:
            text = self.ask("> ").strip()
            if text.lower() in ("q", "quit"):
                raise Leave
            if text == "?":
                self.advise()
            elif text.lower() in ("h", "help"):
                self.say(help_text(names, legal).replace("? shows this help", "? asks the adviser, h shows this help"))
            else:
                try:
                    return find_action(text, names, legal)
                except ValueError as error:
                    self.say(f"{error} (h for help)", "red")

    def advise(self) -> None:
        """Print what the adviser would do and why: its search, its values, and what is known about hidden cards."""
        position = Position.at(self.live.tables)
        if self.adviser is None:
            report, name = self._simulation.analyse([self.live.tables])[0], SIMULATION
        else:
            report, name = self.adviser.analyse([position])[0], str(self.adviser.spec)
        self.show_actions(report, name)
        if report["winner"]:
            chances = ", ".join(f"{self.who(s)} {share:.0%}" for s, share in enumerate(report["winner"]))
            self.say(f"chance to win: {chances}")
        if report["line"]:
            steps = [step["name"] + (f" ({step['outcome']})" if step["outcome"] else "") for step in report["line"]]
            self.say(f"expected line: {', '.join(steps)}")
        pools = exact_belief(position)
        if pools:
            shares = zip(card_names(self.live.info), pools[0], strict=True)
            text = "  ".join(f"{name}: {share:.1%}" for name, share in shares if share)
            self.say(f"a card that you cannot see is exactly: {text}", "dim")

    def show_actions(self, report: dict[str, Any], name: str) -> None:
        """Print what a report finds about the actions, the chosen one first."""
        simulated = self.adviser is None
        columns = ("value", "+-", "is best") if simulated else ("prior", "visits", "value", "choice")
        table = Table(title=f"{name} would choose: {report['name']}", title_justify="left")
        for column in ("action", *columns):
            table.add_column(column, justify="left" if column == "action" else "right")
        best = sorted(report["actions"], key=lambda each: (each["action"] != report["action"], -each["policy"]))
        for each in best[:_ACTIONS]:
            q = "" if each["q"] is None else f"{each['q']:+.3f}"
            if simulated:
                numbers: tuple[str, ...] = q, f"{2 * each['error']:.3f}", f"{each['policy']:.1%}"
            else:
                numbers = f"{each['prior']:.1%}", f"{each['visits']:.1f}", q, f"{each['policy']:.1%}"
            table.add_row(each["name"], *numbers, style="bold" if each["action"] == report["action"] else "")
        self.console.print(table)
        if simulated:
            worlds = report["actions"][0]["visits"]
            self.say(f"every action in {worlds} deals of the hidden cards, played out by a bot", "dim")

    def show_table(self) -> None:
        """Print the table as the person sees it."""
        self.print_board("\n" + self.live.tables.render(0, self.seat).rstrip("\n"))

    def print_board(self, board: str) -> None:
        """Print a table's text, its numbers in colour."""
        text = Text(board)
        text.highlight_regex(r"(?<![\w-])-?\d+", "cyan")
        text.highlight_regex(r"##", "dim")
        text.highlight_regex(r"\(you\)", "bold green")
        self.console.print(text)

    def show_round_end(self, end: RoundEnd) -> None:
        """Print all cards at the end of a round, and the points it brought."""
        self.say("\nThe round is over. All cards:", "bold")
        self.print_board(end.text)
        points = (f"{self.who(s)} {end.totals[s]} ({end.points[s]:+})" for s in range(self.live.players))
        self.say("points: " + ", ".join(points), "bold")

    def show_result(self) -> None:
        """Print final ranks and scores, the best first, and what was promised."""
        tables = self.live.tables
        limit = " (it has reached its limit of decisions)" if tables.truncated[0] else ""
        self.say(f"\nThe game is over{limit}.", "bold")
        width = max(len(self.who(seat)) for seat in range(self.live.players))
        for seat in sorted(range(self.live.players), key=lambda seat: int(tables.ranks[0, seat])):
            line = f"{tables.ranks[0, seat]:3}. {self.who(seat):{width}} {tables.scores[0, seat]:6}"
            self.say(line, "bold green" if seat == self.seat else "")
        self.say(f"seed {self.live.deal.seed}, nonce {self.live.deal.nonce}", "dim")

    def who(self, seat: int) -> str:
        """Name of a seat and its player."""
        return f"seat {seat} ({'you' if seat == self.seat else self.names[seat]})"

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self.console.print(text, style=style)


# ---- from the command line to a table --------------------------------------------------------------------------------


def read_arguments(arguments: Sequence[str]) -> PlayConfig:
    """Make a configuration, defaults filled in, from key=value arguments."""
    config, _ = parse_overrides(PlayConfig, arguments, HELP)
    given = config.opponents if isinstance(config.opponents, list) else [config.opponents]
    opponents = join_options([str(part) for part in given if part])
    for text in opponents:
        trained = trained_for(resolve(AgentSpec.parse(text)))
        if trained:
            config.game = config.game or trained["game"]
            config.players = config.players or (trained["players"] if len(opponents) == 1 else 0)
    config.game = config.game or _first_game()
    require(config.game in env.games(), "game", f"one of {', '.join(env.games())}", config.game)
    named = isinstance(config.rules, str) or "preset" in config.rules  # a rule set, and not only options
    if not opponents:
        shipped = default_analyst(config.game, config.players or None, config.rules if named else None)
        opponents = [str(shipped)] if shipped else []
        config.players = config.players or ((trained_for(shipped) or {}).get("players", 0) if shipped else 0)
    config.players = config.players or max(2, len(opponents) + (config.you >= 0))
    require(-1 <= config.you < config.players, "you", f"-1 to {config.players - 1}", config.you)
    good = config.seed is None or 0 <= config.seed < 2**64
    require(good, "seed", "0 to 2**64 - 1", config.seed)
    wanted = config.players - (config.you >= 0)
    if not opponents:
        opponents = [f"bot:{env.describe(config.game, config.players).default_bot}"]
    require(len(opponents) in (1, wanted), "opponents", f"1 or {wanted} agents", opponents)
    config.opponents = (opponents * wanted)[:wanted]
    config.rules = config.rules if named else _with_rule_set(config.rules, config.game, config.opponents)
    return config


def _with_rule_set(rules: dict[str, Any], game: str, opponents: Sequence[str]) -> dict[str, Any]:
    """Options with the rule set that the first trained opponent has learned."""
    trained = next((found for text in opponents if (found := trained_for(resolve(AgentSpec.parse(text))))), None)
    learned = rule_set_of(game, trained["players"], trained["rules"]) if trained else "official"
    return rules if learned == "official" else {"preset": learned, **rules}


def _first_game() -> str:
    """First game that a trained agent of the project plays, else the first game."""
    return next((game for game in env.games() if default_analyst(game)), env.games()[0])


def open_session(config: PlayConfig, ask: Callable[[str], str]) -> Session:
    """Deal the cards and build the agents that a configuration names."""
    deal = FairDeal() if config.seed is None else FairDeal(config.seed)
    live = LiveGame(config.game, config.players, config.rules or "official", deal)
    specs = [resolve(AgentSpec.parse(text)) for text in config.opponents]
    made: dict[str, Agent] = {}
    for spec in specs:
        if spec.kind == "bot":
            live.tables.bot(spec.target)  # an unknown bot is an error now, not in its first turn
        made.setdefault(str(spec), build(spec, config.game, config.players, batch=1))
    agents: list[Agent | None] = [made[str(spec)] for spec in specs]
    names = [str(spec) for spec in specs]
    if config.you >= 0:
        agents.insert(config.you, None)
        names.insert(config.you, "person")
    return Session(live, agents, names, _adviser(config, specs), ask)


def _adviser(config: PlayConfig, specs: Sequence[AgentSpec]) -> Analyst | None:
    """Agent that answers ?: the one that is named, an opponent with search, or the one shipped for the game, if any."""
    if config.adviser:
        found = Analyst(AgentSpec.parse(config.adviser), batch=1)
        require(found.game == config.game, "adviser", f"an agent for {config.game}", config.adviser)
        found.searcher(config.players)
        return found
    searching = [spec for spec in specs if spec.kind in ("agent", "checkpoint")]
    spec = searching[0] if searching else default_analyst(config.game, config.players, config.rules)
    return Analyst(spec, batch=1) if spec else None


def usage() -> str:
    """Help text of the command."""
    agents = "\n".join(f"    {line}" if line else "" for line in (agent_spec.__doc__ or "").strip().splitlines()[2:])
    return (__doc__ or "").format(agents=agents, keys=describe_keys(PlayConfig(), HELP))


def main(argv: Sequence[str] | None = None, ask: Callable[[str], str] = input) -> int:
    """Play the game that the command line describes; return the exit code. `ask` stands for the keyboard."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    try:
        config = read_arguments(arguments)
        session = open_session(config, ask)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        session.run()
    except (Leave, EOFError, KeyboardInterrupt):
        print("\nYou have left the game; no record is kept of games that are not over.")
        return 0
    path = Path(config.record or f"runs/games/{config.game}-{session.live.deal.seed}.json")
    try:
        session.live.record(session.names).save(path)
    except OSError as error:
        print(f"error: record: expected a file that can be written, got {path}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{path}: the game record; {hints.command('env.game_record', path, '--check')} deals it again")
    return 0
