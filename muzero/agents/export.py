"""Export of a trained network for other programs: torch.export (.pt2) or ONNX (.onnx).

    python -m muzero.agents.export agent=agent:skyjo-belief [out=runs/export] [format=onnx]

Keys:
    agent=     weights: agent:NAME, checkpoint:RUN or policy:PATH
    out=       directory of the files; by default runs/export
    format=    onnx, or torch: a program of torch.export, which needs no code of this project
    players=   players at the table; by default as in training
    backup=    maxn: values of all seats; ego: the value of the root's player alone

Two files are written, for any number of rows B, and export.json, which describes them:
    initial    obs [B, W] int16 -> latent [B, L], outputs [B, A + V]: policy logits and values
    recurrent  latent [B, L], action, shift, to_play, outcome [B] int64 -> latent [B, L], outputs [B, A + 2 V], or
               [B, A + O + 2 V] with chance events: policy logits, outcome logits, values, rewards
`muzero/model/interface.py` explains the arguments, `env.describe(game).decode(row)` an observation.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from muzero.agents.agent_spec import AgentSpec, fingerprint, load_network, resolve, trained_for
from muzero.config.fields import require
from muzero.model.interface import BaseNetwork
from muzero.runs.files import WriteError, json_text, write_whole, writing

FORMATS = {"onnx": "onnx", "torch": "pt2"}
"""Ending of the files of each format."""

_KEYS = ("agent", "out", "format", "players", "backup")
_ROWS = 4  # of the example from which a program is traced; 0 and 1 would be taken for constants
_STEP = ("latent", "action", "shift", "to_play", "outcome")


class _Initial(nn.Module):
    """Evaluation of roots as a module with tensors in and out."""

    def __init__(self, network: BaseNetwork, backup: str) -> None:
        super().__init__()
        self.network, self.backup = network, backup

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """See `BaseNetwork.initial`."""
        return self.network.initial(obs, self.backup)


class _Recurrent(nn.Module):
    """Recurrent step as a module with tensors in and out."""

    def __init__(self, network: BaseNetwork, backup: str) -> None:
        super().__init__()
        self.network, self.backup = network, backup

    def forward(
        self, latent: Tensor, action: Tensor, shift: Tensor, to_play: Tensor, outcome: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See `BaseNetwork.recurrent`."""
        return self.network.recurrent(latent, action, shift, to_play, outcome, self.backup)


@dataclass(frozen=True)
class Exported:
    """Files of an exported network.

    Attributes:
      initial: file of the program that evaluates roots.
      recurrent: file of the program that takes a step.
      description: file of the description, export.json.
    """

    initial: Path
    recurrent: Path
    description: Path


def export_network(network: BaseNetwork, out: str | Path, *, format: str = "onnx", backup: str = "maxn") -> Exported:
    """Write a network as two programs, for any number of rows.

    Args:
      network: network to export; it is evaluated on the CPU.
      out: directory of the files, which is made if need be.
      format: one of `FORMATS`.
      backup: how values go up the trees, "maxn" or "ego"; see `BaseNetwork.initial`.
    """
    require(format in FORMATS, "format", f"one of {', '.join(FORMATS)}", format)
    require(backup in ("maxn", "ego"), "backup", "maxn or ego", backup)
    network, place = network.cpu().eval(), Path(out)
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    obs = torch.zeros(_ROWS, network.spec.width, dtype=torch.int16)
    numbers = torch.zeros(_ROWS, dtype=torch.int64)
    step = (torch.zeros(_ROWS, network.latent_dim), *(numbers.clone() for _ in _STEP[1:]))
    names = {"initial": ("obs",), "recurrent": _STEP}
    modules: dict[str, nn.Module] = {"initial": _Initial(network, backup), "recurrent": _Recurrent(network, backup)}
    given: dict[str, tuple[Tensor, ...]] = {"initial": (obs,), "recurrent": step}
    rows = torch.export.Dim("rows", min=1)
    for name, module in modules.items():
        path = place / f"{name}.{FORMATS[format]}"
        with writing(path), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notes of the exporters about their own insides
            shapes = {key: {0: rows} for key in names[name]}
            program = torch.export.export(module, given[name], dynamic_shapes=shapes, strict=True)
            if format == "torch":
                torch.export.save(program, path)
            else:
                _write_onnx(program, path, list(names[name]))
    description = place / "export.json"
    write_whole(description, json_text(_described(network, format, backup)))
    return Exported(place / f"initial.{FORMATS[format]}", place / f"recurrent.{FORMATS[format]}", description)


def _write_onnx(program: Any, path: Path, names: list[str]) -> None:
    try:
        import onnxscript  # noqa: F401  # torch's exporter needs it
    except ModuleNotFoundError as missing:
        needed = f"a Python with {missing.name} for onnx (pip install -c constraints.txt onnxruntime onnxscript)"
        raise ValueError(f"format: expected {needed}, or torch, got 'onnx'") from None
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it reports packages that are not needed
    outputs = ["next_latent" if "latent" in names else "latent", "outputs"]
    torch.onnx.export(
        program, (), path, input_names=names, output_names=outputs, dynamo=True, verbose=False, external_data=False
    )


def _described(network: BaseNetwork, format: str, backup: str) -> dict[str, Any]:
    """Description of the programs, for whoever calls them."""
    spec, outcomes = network.spec, network.num_outcomes if network.num_outcomes > 1 else 0
    return {
        "game": spec.game,
        "game_version": spec.version,
        "players": spec.num_players,
        "format": format,
        "backup": backup,
        "frame": network.frame,
        "observation": spec.width,
        "latent": network.latent_dim,
        "actions": spec.num_actions,
        "outcomes": outcomes,
        "values": spec.num_players if backup == "maxn" else 1,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Export the network that the command line names; return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    given = {"out": "runs/export", "format": "onnx", "players": "", "backup": "maxn"}
    try:
        for argument in arguments:
            key, equals, value = argument.partition("=")
            known = bool(equals) and key in _KEYS
            require(known, f"argument {argument!r}", f"key=value with one of {', '.join(_KEYS)}", argument)
            given[key] = value
        spec = resolve(AgentSpec.parse(given.get("agent", "")))
        trained = trained_for(spec)
        require(trained is not None, "agent", "weights: agent:NAME, checkpoint:RUN or policy:PATH", str(spec))
        assert trained is not None
        players = given["players"] or str(trained["players"])
        require(players.isdecimal(), "players", "a number", players)
        network, _ = load_network(spec, trained["game"], int(players))
        found = export_network(network, given["out"], format=given["format"], backup=given["backup"])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except WriteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{found.initial}, {found.recurrent}, {found.description}: weights {fingerprint(spec)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
