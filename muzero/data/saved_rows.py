"""Check of decisions that were read from a file: numbers that no game could have brought are refused by name.

Types and shapes have been compared before. What is stored is later used as an index (observations, actions, cards) or
learned from (rewards, values), so that a single wrong number could end a run hours later, or worse, train it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muzero.config.fields import require
from muzero.data.trajectory import require_range, unpack_legal
from muzero.model.spec import GameSpec

_LARGEST = 1e6  # largest reward, value or return
_POLICY_TOLERANCE = 1e-2  # accepted distance of a policy's sum from 1
_POINTS = ("scores", "final_scores")  # whole numbers that no type bounds


def column_limits(spec: GameSpec) -> NDArray[np.int64]:
    """Number of categories of each column of an observation row, [W]."""
    limits = np.zeros(spec.width, np.int64)
    for group in spec.groups:
        size = group.count * len(group.vocabulary)
        limits[group.offset : group.offset + size] = np.tile(group.vocabulary, group.count)
    return limits


def check_rows(where: str, rows: Mapping[str, NDArray[Any]], spec: GameSpec) -> None:
    """Refuse decisions that cannot come from games; the error names the field.

    Args:
      where: prefix of the fields in an error, such as "replay_2.npz: ".
      rows: [N, ...] fields of decisions, of right types and shapes (`muzero.data.trajectory`); some may be absent.
      spec: description of the game.
    """
    obs, limits = rows["obs"], column_limits(spec)
    good = (obs >= 0) & (obs < limits)
    if not good.all():
        row, column = np.argwhere(~good)[0].tolist()
        require(False, f"{where}obs, column {column}", f"0 to {limits[column] - 1}", int(obs[row, column]))
    require_range(f"{where}action", rows["action"], spec.num_actions)
    require_range(f"{where}to_play", rows["to_play"], spec.num_players)
    require_range(f"{where}phase", rows["phase"], len(spec.phase_table.possible))
    require_range(f"{where}outcome", rows["outcome"], spec.num_outcomes)
    require_range(f"{where}hidden", rows["hidden"], max(spec.num_outcomes, 1))
    if "ranks" in rows:
        require_range(f"{where}ranks", rows["ranks"].astype(np.int64) - 1, spec.num_players)
    legal, count = rows["legal"], len(rows["action"])
    if spec.num_actions < 64:
        beyond = legal >> np.uint64(spec.num_actions)
        require(
            not beyond.any(), f"{where}legal", f"masks of {spec.num_actions} actions", legal[beyond != 0][:1].tolist()
        )
    taken = unpack_legal(legal, spec.num_actions)[np.arange(count), rows["action"]]
    wrong = np.flatnonzero(~taken)
    require(not len(wrong), f"{where}action", "legal actions", f"an illegal one in row {wrong[:1].tolist()}")
    for name, array in rows.items():
        if (array.dtype.kind == "f" and name != "values") or name in _POINTS:
            numbers = np.atleast_1d(array).astype(np.float64)
            fits = np.abs(numbers) <= _LARGEST  # False for NaN
            require(bool(fits.all()), f"{where}{name}", f"numbers up to {_LARGEST:g}", numbers[~fits][:3].tolist())
    values = rows["values"]
    fits = np.isnan(values) | (np.abs(values) <= _LARGEST)
    require(bool(fits.all()), f"{where}values", f"numbers up to {_LARGEST:g}, or NaN", values[~fits][:3].tolist())
    policy = rows["policy"]
    require(bool((policy >= 0).all()), f"{where}policy", "0 or more", policy[policy < 0][:3].tolist())
    total = policy.sum(1, dtype=np.float64)
    whole = (np.abs(total - 1) <= _POLICY_TOLERANCE) | ~rows["has_policy"]
    require(bool(whole.all()), f"{where}policy", "rows that add up to 1", total[~whole][:3].tolist())
