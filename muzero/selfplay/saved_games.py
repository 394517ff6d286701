"""Check of the games in progress that a self-play worker reads from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config_fields import require
from muzero.data.saved_rows import check_rows
from muzero.model.spec import GameSpec
from muzero.runs.files import require_arrays
from muzero.selfplay.opponents import BOT_VS_BOT, PAST_SELF

_ROWS = "trajectory_"  # prefix of the arrays [time, tables, ...] of decisions
_MOST_STARTED = 1 << 62


def check_saved_games(
    state: Mapping[str, NDArray[Any]], fresh: Mapping[str, NDArray[Any]], spec: GameSpec, bots: int, longest: int
) -> None:
    """Refuse anything but the state of a worker like this one; the error names the array.

    Args:
      state: arrays of the checkpoint.
      fresh: state of this worker, of whatever games: names, types and shapes must be the same, except for the time.
      spec: description of the game.
      bots: number of bots of the run.
      longest: largest number of decisions of a game.
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
    _require(state, "owner", PAST_SELF, bots - 1)
    _require(state, "kind", BOT_VS_BOT, bots - 1)
    _require(state, "deals", -1, _MOST_STARTED)
    _require(state, "takeover_after", 0, np.iinfo(np.int64).max)
    started = state["started"].tolist()
    require(0 <= started[0] <= _MOST_STARTED and started[1] in (0, 1), "self-play started", "a number, 0 or 1", started)
    rows = {name.removeprefix(_ROWS): state[name].reshape(-1, *state[name].shape[2:]) for name in timed}
    # Rows before a table's game began are left over from an earlier game, and are whole decisions all the same.
    check_rows("self-play ", rows, spec)


def _require(state: Mapping[str, NDArray[Any]], name: str, least: int, most: int) -> None:
    """Refuse numbers outside of a range."""
    wrong = state[name][(state[name] < least) | (state[name] > most)]
    require(not len(wrong), f"self-play {name}", f"{least} to {most}", wrong[:3].tolist())
