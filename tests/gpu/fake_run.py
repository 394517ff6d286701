"""Program that runs networks, search and learner on fake CUDA tensors and prints what it saw as JSON.

A fake tensor has a shape and a device, but no numbers: operations on tensors of different devices raise as on a GPU.
`test_fake_gpu.py` starts this program in a process of its own, with pretend_cuda.cpp loaded before torch.

    python -m tests.gpu.fake_run          # what the default tests look at
    python -m tests.gpu.fake_run rest     # what the slow tests look at: the other kinds of networks and games
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import env
from muzero.config import LearnerConfig, SearchConfig
from muzero.data.replay_buffer import Batch
from muzero.model.network import Network
from muzero.model.presets import load_model_config
from muzero.model.spec import GameSpec
from muzero.search.lane import Lane
from muzero.training.learner import Learner
from muzero.training.optimizer_state import optimizer_state, restore_optimizer
from muzero.training.priorities import Priorities

GPU = torch.device("cuda:0")
STRUCTURES = (("slots", "columns"), ("slots", "transformer"), ("flat", "transformer"))
CHANCE = (("baseline", "none"), ("baseline", "game"), ("belief", "none"), ("belief", "game"), ("belief_cards", "game"))
_EVERY = tuple((*structure, *chance) for structure in STRUCTURES for chance in CHANCE)
# Kinds of networks of the default tests, two structures and variants; the slow tests take the others.
KINDS = (
    ("slots", "columns", "belief_cards", "game"),
    ("flat", "transformer", "belief", "game"),
)
REST = tuple(kind for kind in _EVERY if kind not in KINDS)
OTHER_GAMES = ("kuhn", "lama", "skipbo")
SIMULATIONS, TABLES, WINDOWS, UNROLL = 2, 6, 8, 2
# Operations whose result the host needs before it can go on, besides copies.
_WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive")


class Waits(TorchDispatchMode):
    """Mode that notes operations for which the host waits for the GPU, as torch.cuda.set_sync_debug_mode would.

    Attributes:
      seen: names of these operations, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.removeprefix("aten::")
        if name == "is_pinned":
            return False
        if name == "_pin_memory":  # fake tensors cannot be pinned
            return args[0].clone()
        if name in ("to", "item"):  # in inference mode composite operations arrive here whole
            with self:
                return func.decompose(*args, **kwargs)
        if name in _WAITING and args[0].device.type == "cuda":
            self.seen.append(name)
        if name in ("index", "index_put", "index_put_") and any(
            i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]
        ):
            self.seen.append(f"{name} by a mask")
        if name == "repeat_interleave":
            self.seen.append(name)
        out = func(*args, **kwargs)
        if name in ("_to_copy", "copy_"):
            source, blocking = args[-1 if name == "_to_copy" else 1], not kwargs.get("non_blocking", False)
            if name == "copy_" and len(args) > 2:
                blocking = not args[2]
            if isinstance(source, Tensor) and blocking and source.device.type != out.device.type:
                self.seen.append(f"copy {source.device.type} to {out.device.type}")
        return out


class _Event:
    """Stand-in for a CUDA event."""

    recorded = 0
    waits: Waits

    def record(self, stream: Any) -> None:
        """Number the event."""
        _Event.recorded += 1
        self.number = _Event.recorded

    def synchronize(self) -> None:
        """Note which of the events recorded so far the host waits for, counted from the last one, 0."""
        self.waits.seen.append(f"event {_Event.recorded - self.number}")


class _Stream:
    """Stand-in for the current CUDA stream."""

    def __init__(self, waits: Waits) -> None:
        self.waits = waits

    def synchronize(self) -> None:
        """Note that the host waits."""
        self.waits.seen.append("synchronize")


@contextmanager
def fake_gpu() -> Iterator[Waits]:
    """Context in which tensors are fake and the host's waits are noted."""
    waits = Waits()
    places = ((Tensor, "numpy"), *((torch.cuda, name) for name in ("current_stream", "is_available", "Event")))
    places += ((torch.cuda, "is_bf16_supported"),)
    kept = [getattr(*place) for place in places]
    dtypes = {torch.float32: np.float32, torch.int64: np.int64}

    def numpy(tensor: Tensor, *_: Any, **__: Any) -> NDArray[Any]:
        if tensor.device.type != "cpu":
            raise TypeError(f"can't convert a {tensor.device} tensor to numpy")
        return np.zeros(tuple(tensor.shape), dtypes[tensor.dtype])

    _Event.waits, _Event.recorded = waits, 0
    try:
        Tensor.numpy = numpy  # type: ignore[method-assign,assignment]
        torch.cuda.current_stream = lambda *_: _Stream(waits)  # type: ignore[assignment,return-value]
        torch.cuda.Event = _Event  # type: ignore[misc,assignment]
        with FakeTensorMode(allow_non_fake_inputs=False), waits:
            torch.cuda.is_available = lambda: True
            torch.cuda.is_bf16_supported = lambda *_: True
            yield waits
    finally:
        for place, value in zip(places, kept, strict=True):
            setattr(*place, value)


def on_gpu(network: Network) -> Network:
    """Replace the parameters and buffers of a network by fake ones on the GPU, as `to("cuda")` would move them."""
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = nn.Parameter(torch.empty(parameter.shape, device=GPU))
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=GPU)
    return network


def make(latent: str, encoder: str, variant: str, chance: str, game: str = "skyjo", players: int = 2) -> Network:
    """Network of a kind, of a few weights, on the CPU."""
    config = replace(load_model_config("tiny", variant), width=16, feedforward=16, latent_dim=24, hidden=24, layers=1)
    config = replace(config, latent=latent, encoder=encoder, chance=chance, points=20.0)
    return Network(GameSpec.of(game, players), config)


def zero_batch(spec: GameSpec) -> Batch:
    """Batch of the right shapes and dtypes for a game; its numbers are never seen."""
    shape, P = (WINDOWS, UNROLL + 1), spec.num_players
    whole, single = np.int64, np.float32
    return Batch(
        actions=np.zeros((WINDOWS, UNROLL), whole),
        shifts=np.zeros((WINDOWS, UNROLL), whole),
        to_play=np.zeros(shape, whole),
        value=np.zeros((*shape, P), single),
        value_mask=np.zeros(shape, single),
        reward=np.zeros((WINDOWS, UNROLL, P), single),
        reward_mask=np.zeros((WINDOWS, UNROLL), single),
        policy=np.zeros((*shape, spec.num_actions), single),
        policy_mask=np.zeros(shape, single),
        winner=np.zeros((*shape, P), single),
        rank=np.zeros((*shape, P, P), single),
        outcome_mask=np.zeros(shape, single),
        outcomes=np.zeros((WINDOWS, UNROLL), whole),
        points=np.zeros((*shape, P), single),
        after=np.zeros(WINDOWS, whole),
        after_mask=np.zeros(WINDOWS, single),
        obs=np.zeros((*shape, spec.width), np.int16),
        hidden=np.zeros((*shape, spec.num_slots), np.int8),
        live=np.zeros(shape, single),
        weights=np.ones(WINDOWS, single),
        index=np.zeros(WINDOWS, whole),
        stamp=np.zeros(WINDOWS, whole),
    )


def search(network: Network, **settings: Any) -> list[str]:
    """Plan for a batch of real tables with the network on the fake GPU; returns the host's waits."""
    spec = network.spec
    tables = env.make(spec.game, TABLES, spec.num_players, seed=1)
    config = SearchConfig(backend="eager", simulations=SIMULATIONS, skip_forced=False, **settings)
    with fake_gpu() as waits:
        lane = Lane(on_gpu(network).eval(), config, TABLES, None)
        waits.seen.clear()
        lane.plan(tables.obs, tables.legal_bits, tables.phase, tables.decision_keys(0), 1.0)
    return waits.seen


def learn(network: Network, smaller: Sequence[Network] = (), **settings: Any) -> list[str]:
    """Make learner steps on the fake GPU, then take the state as a checkpoint does, restore it and go on.

    Returns:
      Waits of the host during the steps.
    """
    with fake_gpu() as waits:
        on_gpu(network)
        for few in smaller:
            on_gpu(few)
        config = LearnerConfig(one_step_share=0.3, consistency_weight=1.0, ema=0.99, **settings)
        learner = Learner(network, config, smaller)
        first = Learner(network, config, smaller)
        for few in smaller:  # the first such step copies the indices of the weights that it uses
            learner.step(zero_batch(few.spec), 0)
        waits.seen.clear()
        for iteration in range(2):
            for players in (network, *smaller):
                td_error = learner.step(zero_batch(players.spec), iteration)
                assert td_error.device == GPU
        steps, waits.seen = waits.seen, []
        assert {p.grad.device for p in network.parameters() if p.grad is not None} == {GPU}
        memory, state = optimizer_state(learner.optimizer, network)
        saved = {name: tensor.cpu() for name, tensor in memory.items()}
        weights = {name: p.detach().cpu() for name, p in network.named_parameters()}
        average = {name: tensor.cpu() for name, tensor in (learner.ema or {}).items()}
        assert {t.device.type for part in (saved, weights, average) for t in part.values()} == {"cpu"}
        network.load_state_dict(weights)
        restore_optimizer(first.optimizer, network, saved, state)
        first.load_ema(average)
        kept = [t for memory in first.optimizer.state.values() for t in memory.values() if isinstance(t, Tensor)]
        assert {t.device for t in kept} == {GPU}
        first.step(zero_batch(network.spec), 3)
    return steps


def priorities() -> dict[str, Any]:
    """Learner steps whose TD errors go to a replay buffer; returns the host's waits and the buffer's updates."""
    network, updates = make("flat", "transformer", "belief", "game"), []

    class Buffer:
        """Replay buffer that notes whose priorities it is given."""

        def update(self, index: NDArray[np.int64], stamp: NDArray[np.int64], priority: NDArray[np.float32]) -> None:
            updates.append(int(index[0]))
            assert priority.shape == (WINDOWS,)

    with fake_gpu() as waits:
        learner, late = Learner(on_gpu(network), LearnerConfig()), Priorities()
        for step in range(3):
            batch = replace(zero_batch(network.spec), index=np.full(WINDOWS, step))
            late.note(Buffer(), batch, learner.step(batch, 0))  # type: ignore[arg-type]
            waits.seen.append(f"step {step}")
        late.finish()
    return {"waits": waits.seen, "updates": updates}


def controls() -> dict[str, Any]:
    """Mistakes that must be found: numbers on the host beside numbers on the GPU, and hidden waits."""
    found: dict[str, Any] = {}
    with fake_gpu() as waits:
        x = torch.zeros(4, device=GPU, requires_grad=True)
        try:
            x + torch.ones(4)
        except RuntimeError as error:
            found["wrong device"] = type(error).__name__
        (x * 2).sum().backward()
        attempts: dict[str, Callable[[], Any]] = {
            "item": lambda: x.sum().item(),
            "bool": lambda: bool(x.sum() > 0),
            "tolist": lambda: x.tolist(),
            "nonzero": lambda: x.nonzero(),
            "mask": lambda: x[x > 0],
            "cpu": lambda: x.detach().cpu(),
            "to the gpu": lambda: torch.ones(4).to(GPU),
            "without waiting": lambda: torch.ones(4).to(GPU, non_blocking=True),
        }
        for name, attempt in attempts.items():
            waits.seen = []
            with suppress(RuntimeError):  # fake tensors have no numbers to return
                attempt()
            found[name] = waits.seen
    return found


def attempt(work: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Result of a call, or the error's traceback."""
    try:
        return work(*args, **settings)
    except Exception:
        return {"error": traceback.format_exc()}


def results(kinds: Sequence[tuple[str, str, str, str]], games: Sequence[str] = ()) -> dict[str, Any]:
    """Results of searches and learner steps of kinds of networks on Skyjo and of one kind on other games, by name."""
    out: dict[str, Any] = {}
    for kind in kinds:
        source = "cards" if "belief_cards" in kind else "learned"
        found = {"search": attempt(search, make(*kind), chance_source=source)}
        found["learner"] = attempt(learn, make(*kind))
        if kind[2:] == ("belief", "game"):
            found["search of one value"] = attempt(search, make(*kind), backup="ego", bf16=True)
            found["learner in bf16"] = attempt(learn, make(*kind), bf16=True)
        out["/".join(kind)] = found
    for game in games:
        kind = ("slots", "columns", "belief", "game")
        out[game] = {"search": attempt(search, make(*kind, game)), "learner": attempt(learn, make(*kind, game))}
    return out


def default() -> dict[str, Any]:
    """Results of the default tests."""
    return {"controls": attempt(controls), **results(KINDS), "priorities": attempt(priorities)}


def rest() -> dict[str, Any]:
    """Results of the slow tests."""
    out = results(REST, OTHER_GAMES)
    three, two = (make("slots", "columns", "belief", "game", players=players) for players in (3, 2))
    out["two table sizes"] = {"learner": attempt(learn, three, [two])}
    return out


if __name__ == "__main__":
    json.dump(rest() if sys.argv[1:] == ["rest"] else default(), sys.stdout)
