"""Engines that can compute a network for the search on a CPU: our native code, torch, torch.compile, ONNX Runtime.

An engine computes the roots (encoder and prediction) and the recurrent step (dynamics and prediction) of a batch. All
of them run on as many threads as torch is set to, except the native code, which runs on the thread that calls it, as a
lane of the search does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mcts import Requests
from muzero.config.fields import require
from muzero.model.network import Network
from muzero.search.backend import NATIVE_STEP

Work = Callable[[], NDArray[np.float32]]
"""Function that computes a batch and returns its outputs."""

BACKUP = "maxn"
_TOLERANCE = 2e-3  # largest difference of the outputs of two engines


class Missing(Exception):
    """Error: an engine cannot run here; the message is the reason."""


@dataclass
class Engine:
    """Functions that compute a batch by one engine.

    Attributes:
      roots: function that computes outputs [B, A + V] of the roots.
      steps: function that computes outputs [B, A + 2 V] of the recurrent step.
    """

    roots: Work
    steps: Work


class Inputs:
    """Batch that all engines compute.

    Attributes:
      obs: [B, W] observations.
      latent: [B, L] latents before the step.
      action, shift, to_play, outcome: [B] arguments of the step; `BaseNetwork.recurrent` explains them.
    """

    def __init__(self, network: Network, obs: NDArray[np.int16]) -> None:
        rows, spec = len(obs), network.spec
        self.obs = np.ascontiguousarray(obs)
        with torch.inference_mode():
            self.latent = network.represent(torch.from_numpy(obs)).clone()
        number = torch.arange(rows)
        self.action, self.shift = number % spec.num_actions, number % spec.num_players
        self.to_play, self.outcome = self.shift.clone(), torch.zeros(rows, dtype=torch.int64)


class _Roots(nn.Module):
    """Roots as a module with tensors in and out, for exporters."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """obs [B, W] -> latents [B, L], outputs [B, A + V]"""
        return self.network.initial(obs, BACKUP)


class _Steps(nn.Module):
    """Recurrent step as a module with tensors in and out, for exporters."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, latent: Tensor, action: Tensor, shift: Tensor, to_play: Tensor, outcome: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Arguments and results of `BaseNetwork.recurrent`."""
        return self.network.recurrent(latent, action, shift, to_play, outcome, BACKUP)


def native(network: Network, given: Inputs) -> Engine:
    """Make our C++ code for slots networks."""
    if NATIVE_STEP is None:
        raise Missing("this build has no native step")
    reason = NATIVE_STEP.unsupported_reason(network)
    if reason:
        raise Missing(reason)
    step, rows = NATIVE_STEP(network), len(given.obs)
    latents = np.zeros((2, rows, network.latent_dim), np.float32)
    latents[0] = given.latent.numpy()
    columns = (given.action, given.shift, given.to_play, given.outcome)
    requests = Requests(np.arange(rows), *(column.numpy() for column in columns))
    outcomes = network.num_outcomes if network.num_outcomes > 1 else 0
    outputs = np.zeros((rows, network.spec.num_actions + outcomes + 2 * network.num_players), np.float32)

    def roots() -> NDArray[np.float32]:
        found = step.initial(given.obs, BACKUP)
        if found is None:
            raise Missing(f"no C++ code for the encoder {network.config.encoder}")
        return found[1]

    def steps() -> NDArray[np.float32]:
        step.advance(latents, requests, 1, rows, BACKUP, outputs)
        return outputs

    return Engine(roots, steps)


def eager(network: Network, given: Inputs) -> Engine:
    """Make torch as it is."""
    return _torch_engine(_Roots(network), _Steps(network), given)


def compiled(network: Network, given: Inputs) -> Engine:
    """Make torch.compile, for one batch size, as `search.backend=compiled` does."""
    roots = torch.compile(_Roots(network), dynamic=False, options={"cpp_wrapper": True})
    steps = torch.compile(_Steps(network), dynamic=False, options={"cpp_wrapper": True})
    return _torch_engine(roots, steps, given)


def _torch_engine(roots: Callable[..., Any], steps: Callable[..., Any], given: Inputs) -> Engine:
    obs = torch.from_numpy(given.obs)
    asked = given.latent, given.action, given.shift, given.to_play, given.outcome

    @torch.inference_mode()
    def run_roots() -> NDArray[np.float32]:
        found: Tensor = roots(obs)[1]
        return found.numpy()

    @torch.inference_mode()
    def run_steps() -> NDArray[np.float32]:
        found: Tensor = steps(*asked)[1]
        return found.numpy()

    return Engine(run_roots, run_steps)


def onnx(network: Network, given: Inputs) -> Engine:
    """Make ONNX Runtime, for one batch size, from a file that torch exports."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # torch's exporter needs it
    except ModuleNotFoundError as missing:
        raise Missing(f"{missing.name} is missing: pip install -c constraints.txt 'belief-muzero[onnx]'") from None

    def session(module: nn.Module, arguments: tuple[Tensor, ...], names: list[str]) -> Callable[..., Any]:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "network.onnx"
            with torch.no_grad():
                torch.onnx.export(
                    module, arguments, path, input_names=names, dynamo=True, verbose=False, external_data=False
                )
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            made = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        wanted = {each.name for each in made.get_inputs()}  # the exporter drops inputs that change nothing
        feed = {name: tensor.numpy() for name, tensor in zip(names, arguments, strict=True) if name in wanted}
        return lambda: made.run(None, feed)[1]

    asked = (given.latent, given.action, given.shift, given.to_play, given.outcome)
    roots = session(_Roots(network), (torch.from_numpy(given.obs),), ["obs"])
    steps = session(_Steps(network), asked, ["latent", "action", "shift", "to_play", "outcome"])
    return Engine(roots, steps)


ENGINES: dict[str, Callable[[Network, Inputs], Engine]] = {
    "native": native,
    "eager": eager,
    "compiled": compiled,
    "onnx": onnx,
}


def make_engines(network: Network, obs: NDArray[np.int16], compile: bool) -> tuple[dict[str, Engine], dict[str, str]]:
    """Make all engines for a batch, and compare their results with those of torch.

    Args:
      network: network to compute.
      obs: [B, W] observations of the roots.
      compile: whether to make the engine that compiles, which takes a minute.

    Returns:
      Engines by name; the reasons why others are missing.

    Raises:
      ValueError: two engines do not compute the same.
    """
    given = Inputs(network, obs)
    found: dict[str, Engine] = {}
    missing: dict[str, str] = {}
    for name, make in ENGINES.items():
        try:
            if name == "compiled" and not compile:
                raise Missing("switched off by --no-compile")
            engine = make(network, given)
            engine.roots()
        except Missing as reason:
            missing[name] = str(reason)
            continue
        found[name] = engine
    plain = found["eager"]
    for name, engine in found.items():
        for kind in ("roots", "steps"):
            expected, computed = getattr(plain, kind)(), getattr(engine, kind)()
            worst = float(np.abs(expected - computed).max())
            require(worst <= _TOLERANCE, f"engine {name}", f"the same {kind} as torch within {_TOLERANCE}", worst)
    return found, missing
