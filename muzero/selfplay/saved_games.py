"""Check of the games in progress that a self-play worker reads from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from muzero.config.fields import require
from muzero.data.saved_rows import check_rows
from muzero.model.spec import GameSpec
from muzero.runs.files import require_arrays
from muzero.runs.tensors import require_finite
from muzero.selfplay.opponents import BOT_VS_BOT, EXPLOITED, PAST_SELF
from muzero.selfplay.past_selves import NETWORKS, NOBODY, PREFIX
from muzero.selfplay.serialization import weights_from_numpy, weights_to_numpy

_ROWS = "trajectory_"  # prefix of the arrays [time, tables, ...] of decisions
_MOST_STARTED = 1 << 62


def check_saved_games(
    state: Mapping[str, NDArray[Any]],
    fresh: Mapping[str, NDArray[Any]],
    spec: GameSpec,
    bots: int,
    longest: int,
    *,
    exploits: bool = False,
) -> None:
    """Refuse anything but the state of a worker like this one; the error names the array.

    Args:
      state: arrays of the checkpoint.
      fresh: state of this worker, of whatever games: names, types and shapes must be the same, except for the time.
      spec: description of the game.
      bots: number of bots of the run.
      longest: largest number of decisions of a game.
      exploits: whether the run has an agent to exploit.
    """
    begun = f"{_ROWS}begun"
    timed = [name for name in fresh if name.startswith(_ROWS) and name != begun]
    expected = {n: (a.dtype, (None, *a.shape[1:]) if n in timed else a.shape) for n, a in fresh.items()}
    require_arrays("self-play", state, expected)
    lengths = {len(state[name]) for name in timed}
    require(len(lengths) == 1, "self-play", "arrays of the same time", sorted(lengths))
    time = lengths.pop()
    require(time <= longest, "self-play time", f"at most {longest}, the decisions of a game", time)
    _require(state, begun, 0, time)
    _require(state, "owner", EXPLOITED if exploits else PAST_SELF, bots - 1)
    _require(state, "kind", EXPLOITED if exploits else BOT_VS_BOT, bots - 1)
    _require(state, "deals", -1, _MOST_STARTED)
    _require(state, "takeover_after", 0, np.iinfo(np.int64).max)
    started = state["started"].tolist()
    require(0 <= started[0] <= _MOST_STARTED and started[1] in (0, 1), "self-play started", "a number, 0 or 1", started)
    rows = {name.removeprefix(_ROWS): state[name].reshape(-1, *state[name].shape[2:]) for name in timed}
    # Rows before a table's game began are left over from an earlier game, and are whole decisions all the same.
    check_rows("self-play ", rows, spec)


def is_of_past_selves(name: str) -> bool:
    """Whether an array of a worker's state belongs to its past networks."""
    return name.startswith(PREFIX)


def check_past_selves(
    past: Mapping[str, NDArray[Any]], games: Mapping[str, NDArray[Any]], own: Mapping[str, Tensor]
) -> None:
    """Refuse past networks that are not of this worker's kind, or do not fit its games; the error names the array.

    Args:
      past: arrays of the checkpoint that belong to past networks (`PastSelves.state`).
      games: the other arrays of the worker, which `check_saved_games` has accepted.
      own: parameters of the worker's network, which past networks have, too.
    """
    needed = {"past_met": (np.int8, games["kind"].shape), "past_current": (np.int64, (1,))}
    require_arrays("self-play", {name: past[name] for name in needed if name in past}, needed)
    _require(past, "past_met", NOBODY, NETWORKS - 1)
    _require(past, "past_current", 0, NETWORKS - 1)
    met, seats = past["past_met"], (games["owner"] == PAST_SELF).any(1)
    wrong = np.flatnonzero(((games["kind"] == PAST_SELF) != (met != NOBODY)) | (seats & (met == NOBODY)))
    require(not len(wrong), "self-play past_met", "a past network where one plays", f"another at table {wrong[:1]}")
    used = {int(past["past_current"][0]), *met.tolist()}  # others are not saved
    shapes = {name: (array.dtype, array.shape) for name, array in weights_to_numpy(own).items()}
    expected = dict[str, tuple[Any, tuple[int | None, ...]]](needed)
    for index in range(NETWORKS):
        prefix = f"{PREFIX}{index}."
        if index in used and any(name.startswith(prefix) for name in past):
            expected |= {f"{prefix}{name}": found for name, found in shapes.items()}
    require_arrays("self-play", past, expected)
    require_finite("self-play", weights_from_numpy({name: past[name] for name in expected if name not in needed}))


def _require(state: Mapping[str, NDArray[Any]], name: str, least: int, most: int) -> None:
    """Refuse numbers outside of a range."""
    wrong = state[name][(state[name] < least) | (state[name] > most)]
    require(not len(wrong), f"self-play {name}", f"{least} to {most}", wrong[:3].tolist())
