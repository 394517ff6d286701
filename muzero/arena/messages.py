"""Messages that a browser may send, one class per type; unknown types, unknown keys and wrong types are refused."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError

from muzero.arena.schema import Message, explain

Code = Annotated[str, StringConstraints(pattern=r"^[A-Z0-9]{6}$")]
# Names are shown to others, in terminals too: no control characters, and none that turn the direction of text.
_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+$"


def _shown(name: str) -> str:
    """Name that game records may hold, too: no odd spaces, no characters without a meaning."""
    if not name.isprintable():
        raise ValueError("expected characters that can be printed")
    return name


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=24, pattern=_PRINTABLE),
    AfterValidator(_shown),
]
AgentName = Annotated[str, StringConstraints(max_length=80)]
Token = Annotated[str, StringConstraints(min_length=16, max_length=80)]
Word = Annotated[str, StringConstraints(max_length=40)]
Whole = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Rule = bool | Whole | float | Word | Annotated[list[Whole], Field(max_length=64)]
GameId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Place = Annotated[int, Field(ge=0, lt=8)]
PART = 3000  # most characters of a part of a file; a message with it must stay below the limit of bytes
Turn = Annotated[int, Field(ge=0, lt=2**31)]


class Lobby(Message):
    """Question for the games and agents that are offered."""

    type: Literal["lobby"]


class Create(Message):
    """Request for a new room. Seats are names of agents, or null for people; `you` is the sender's seat.

    With `same_deal` the cards and rules are those of a finished game, and the game does not count for ratings.
    """

    type: Literal["create"]
    game: Word
    rules: Annotated[dict[Word, Rule], Field(max_length=40)] = Field(default_factory=dict)
    seats: Annotated[list[AgentName | None], Field(min_length=2, max_length=8)]
    you: Place
    name: Name
    think: bool = True
    same_deal: GameId | None = None


class Join(Message):
    """Request for a free seat of a room."""

    type: Literal["join"]
    room: Code
    name: Name


class Resume(Message):
    """Return to a seat, proved by its token."""

    type: Literal["resume"]
    room: Code
    token: Token


class Start(Message):
    """Request to start at once: bots take the seats that are still free."""

    type: Literal["start"]


class Act(Message):
    """Decision of the sender; `turn` is the number of decisions before it, so that an old click does nothing."""

    type: Literal["act"]
    turn: Turn
    action: Annotated[int, Field(ge=0, lt=64)]


class Think(Message):
    """Question for an analysis of the sender's position."""

    type: Literal["think"]
    turn: Turn


class Again(Message):
    """Request for another game with the same seats, after the end."""

    type: Literal["again"]


class Record(Message):
    """Question for the record of the finished game."""

    type: Literal["record"]


class ListGames(Message):
    """Question for the finished games that can be looked at."""

    type: Literal["gallery"]


class Upload(Message):
    """Part of the file of a game record, in order; the last part makes the server check and keep it."""

    type: Literal["upload"]
    part: Annotated[str, StringConstraints(max_length=PART)]
    last: bool


class Watch(Message):
    """Request for a game of agents that is played while the sender watches."""

    type: Literal["watch"]
    game: Word
    rules: Annotated[dict[Word, Rule], Field(max_length=40)] = Field(default_factory=dict)
    seats: Annotated[list[AgentName], Field(min_length=2, max_length=8)]


class SameCards(Message):
    """Request for a finished game's deal once more, with an agent in the place of a seat."""

    type: Literal["same_cards"]
    id: GameId
    seat: Place


class Frames(Message):
    """Question for frames of a game, from the chunk that holds decision `start`, as a seat sees them."""

    type: Literal["frames"]
    id: GameId
    seat: Place
    start: Turn


class AskReview(Message):
    """Question for the review of a seat in a finished game, as far as it is made."""

    type: Literal["review"]
    id: GameId
    seat: Place


class Results(Message):
    """Question for results and ratings."""

    type: Literal["results"]


class Leave(Message):
    """Farewell: a bot plays on for the sender, who can come back."""

    type: Literal["leave"]


class Ping(Message):
    """Sign of life."""

    type: Literal["ping"]


_Playing = Lobby | Create | Join | Resume | Start | Act | Think | Again | Record | Leave | Ping
LOOKING = (ListGames, Upload, Watch, SameCards, Frames, AskReview, Results)
"""Messages that need no seat: about games that are finished, or played by agents alone."""
_Looking = ListGames | Upload | Watch | SameCards | Frames | AskReview | Results
AnyMessage = Annotated[_Playing | _Looking, Field(discriminator="type")]
_ADAPTER: TypeAdapter[AnyMessage] = TypeAdapter(AnyMessage)


def encode(message: dict[str, Any]) -> bytes:
    """Message to a browser as bytes."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def parse_message(text: str | bytes) -> AnyMessage:
    """Check a message; a ValueError names the key that is wrong, what was expected and what was given."""
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError as error:
        raise ValueError(explain(error)) from None
