"""Where torch meets mcts: the trees grow in C++ on the CPU, their hidden states stay on the network's device.

Per simulation step one small block of indices goes to the device and one of network outputs comes back; nothing else
waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcts import Requests, Results, Search
from muzero.config import SearchConfig
from muzero.model.native.slot_step import BF16, SlotStep, unsupported_reason
from muzero.model.network import Network

_NOT_FOR_TREES = {"skip_forced", "bf16", "backend", "lanes", "prior_temperature", "tree_threads"}
_COMPILED_KINDS = 256  # compiled versions of one function: per network, batch size, device and thread count
_FEWEST_ROWS = 2  # of a network compiled for any number: one alone would be compiled for itself
_DYNAMIC = {"compiled": False, "cuda_graphs": False, "compiled_dynamic": None}  # by kind: what is marked as such


@dataclass(frozen=True)
class Plan:
    """What a search recommends for B games.

    Attributes:
      actions: [B].
      policy: [B, A] training target.
      values: [B, V] search values, seats from the mover's on; V = P, or 1 if the backup is "ego".
      raw_values: [B, V] the network's own.
      visits: [B, A], all zero where there was nothing to search.
    """

    actions: NDArray[np.int64]
    policy: NDArray[np.float32]
    values: NDArray[np.float32]
    raw_values: NDArray[np.float32]
    visits: NDArray[np.float32]


@dataclass
class Clock:
    """Seconds spent since the planner was made.

    Attributes:
      encoder: representation and prediction of the roots.
      network: recurrent calls, transfers and waiting included.
      tree: selection, expansion and backup.
      simulations: made, over all games.
      levels: of trees walked.
    """

    encoder: float = 0.0
    network: float = 0.0
    tree: float = 0.0
    simulations: int = 0
    levels: int = 0


class Planner:
    """Searches with a network for up to `batch` games at a time.

    The games are split among `config.lanes` lanes, each with trees, hidden states and a thread of its own. Small
    networks on a CPU want as many lanes as cores, and torch one thread: their matrix products are too short to share.

    Args:
      network: on the device it is to run on; used in inference mode.
      config: of the search.
      batch: most games in one call.
      greedy: evaluate: no root noise, the policy as it is, and the most visited action.
    """

    def __init__(self, network: Network, config: SearchConfig, batch: int, *, greedy: bool = False) -> None:
        config.check()
        calm = {"gumbel_scale": 0.0, "dirichlet_fraction": 0.0, "prior_temperature": 1.0} if greedy else {}
        self.config = replace(config, **calm)  # type: ignore[arg-type]
        self.batch, self.greedy, self.network = batch, greedy, network
        per_lane = -(-batch // config.lanes)
        self.config = replace(self.config, backend=how_to_run(network, config))
        native = self.config.backend == "native"
        self._step = SlotStep(network, BF16 if config.bf16 else "") if native else None
        self.lanes = [Lane(network, self.config, per_lane, self._step) for _ in range(config.lanes)]
        self._crew = ThreadPoolExecutor(config.lanes - 1) if config.lanes > 1 else None
        if self.config.backend in _DYNAMIC:
            self.lanes[0].run_network()  # here, and not in several threads at once; the other lanes have the same shape

    @property
    def clock(self) -> Clock:
        """Time spent so far, added up over the lanes."""
        clocks = [asdict(lane.clock) for lane in self.lanes]
        return Clock(**{name: sum(clock[name] for clock in clocks) for name in clocks[0]})

    @property
    def bytes(self) -> int:
        """Memory of trees and hidden states."""
        return sum(lane.bytes for lane in self.lanes)

    def plan(
        self,
        obs: NDArray[np.int16],
        legal: NDArray[np.bool_],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float = 1.0,
    ) -> Plan:
        """Searches.

        Args:
          obs: [B, W] rows as the players to move see them.
          legal: [B, A], at least one action in each row.
          phase: [B].
          keys: [B] name the randomness of each game's search.
          temperature: of the choice among visits (puct).
        """
        assert obs.shape[1:] == (self.network.spec.width,), obs.shape
        if self._step is not None:
            self._step.refresh()
        temperature = 0.0 if self.greedy else temperature
        each = -(-len(obs) // len(self.lanes))
        cuts = [slice(i, i + each) for i in range(0, len(obs), each)]
        work = [
            (lane, (obs[c], legal[c], phase[c], keys[c], temperature))
            for lane, c in zip(self.lanes, cuts, strict=False)
        ]
        if self._crew is None or len(work) == 1:
            plans = [lane.plan(*arguments) for lane, arguments in work]
        else:
            others = [self._crew.submit(lane.plan, *arguments) for lane, arguments in work[1:]]
            plans = [work[0][0].plan(*work[0][1]), *(other.result() for other in others)]
        names = [f.name for f in fields(Plan)]
        return Plan(**{name: np.concatenate([getattr(plan, name) for plan in plans]) for name in names})


class Lane:
    """One search at a time, over one arena of trees and hidden states."""

    def __init__(self, network: Network, config: SearchConfig, batch: int, step: SlotStep | None) -> None:
        self.config, self.network, self.step = config, network, step
        self.device = next(network.parameters()).device
        spec = network.spec
        self.trees = Search(
            batch=batch,
            num_actions=spec.num_actions,
            num_players=spec.num_players,
            phase_table=spec.phase_table,
            mover_frame=network.frame == "mover",
            threads=config.tree_threads,
            **{k: v for k, v in asdict(self.config).items() if k not in _NOT_FOR_TREES},
        )
        self.clock = Clock()
        self.batch = batch
        A, V, most = spec.num_actions, self.trees.num_values, max(_FEWEST_ROWS, self.trees.leaves * batch)
        shape = (self.trees.nodes, batch, network.latent_dim)
        if self.device.type == "cpu":  # numpy asks for large pages; full takes them now, zeros when games are many
            self._latents = torch.from_numpy(np.full(shape, 0, np.float32))
        else:
            self._latents = torch.zeros(shape, device=self.device)
        pinned = self.device.type == "cuda"
        self._asked = torch.zeros(4, most, dtype=torch.int64, pin_memory=pinned)
        self._answers = torch.zeros(most, A + 2 * V, pin_memory=pinned)

    @property
    def bytes(self) -> int:
        """Memory of its trees and hidden states."""
        return self.trees.bytes + self._latents.numel() * self._latents.element_size()

    @torch.inference_mode()
    def run_network(self) -> None:
        """One call for the full batch as the last simulation makes it; the first one compiles, which takes seconds."""
        if not self.trees.steps:
            return
        leaves = self.trees.leaves
        rows, first = leaves * self.batch, self.trees.nodes - leaves
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.bf16):
            self._answer(first, self.batch, Requests(*self._asked[:, :rows].numpy()))

    def _advance(self, games: int) -> tuple[Tensor, Tensor]:
        """Next latents and outputs for what the trees of so many games ask, and perhaps more rows to be ignored.

        Compiled for one size, the network takes the full batch; a small rest is quicker without.
        """
        rows, kind = self.trees.leaves * games, self.config.backend
        latents, asked = self._latents.flatten(0, 1), _to(self._asked, self.device)
        if kind == "eager" or (kind != "compiled_dynamic" and 2 * games < self.batch):
            return _advance(self.network, latents, asked[:, :rows], self.config.backup)
        if kind == "compiled_dynamic":
            asked = asked[:, : max(rows, _FEWEST_ROWS)]
            torch._dynamo.maybe_mark_dynamic(latents, 0)
            torch._dynamo.maybe_mark_dynamic(asked, 1)
        return _compiled_advance(kind, self.device.type)(self.network, latents, asked, self.config.backup)

    @torch.inference_mode()
    def plan(
        self,
        obs: NDArray[np.int16],
        legal: NDArray[np.bool_],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float,
    ) -> Plan:
        """See `Planner.plan`."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.bf16):
            started = perf_counter()
            latent, outputs = self.network.initial(_to(torch.from_numpy(obs), self.device), self.config.backup)
            roots = outputs.float().cpu().numpy()
            roots[:, : legal.shape[1]] /= self.config.prior_temperature
            self.clock.encoder += perf_counter() - started
            if not self.config.skip_forced:
                return self._search(latent, roots, legal, phase, keys, temperature)
            free = np.flatnonzero(legal.sum(1) > 1)
            if len(free) == len(obs):
                return self._search(latent, roots, legal, phase, keys, temperature)
            plan = self._forced(roots, legal)
            if len(free):
                rows = _to(torch.from_numpy(free), self.device)
                found = self._search(latent[rows], roots[free], legal[free], phase[free], keys[free], temperature)
                for name in (f.name for f in fields(Plan)):
                    getattr(plan, name)[free] = getattr(found, name)
            return plan

    def _forced(self, roots: NDArray[np.float32], legal: NDArray[np.bool_]) -> Plan:
        """The plan where there is one legal action: that one, and the network's value."""
        A = legal.shape[1]
        return Plan(
            legal.argmax(1),
            legal.astype(np.float32),
            roots[:, A:].copy(),
            roots[:, A:].copy(),
            np.zeros(legal.shape, np.float32),
        )

    def _search(
        self,
        latent: Tensor,
        roots: NDArray[np.float32],
        legal: NDArray[np.bool_],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float,
    ) -> Plan:
        trees, clock, games = self.trees, self.clock, len(latent)
        started, before = perf_counter(), trees.seconds
        trees.begin(roots, legal, phase, keys)
        leaves = trees.leaves
        count = leaves * games
        self._latents[0, :games] = latent
        requests = Requests(*self._asked[:, :count].numpy())
        if trees.steps:
            trees.select(requests)
        for step in range(trees.steps):
            answered = self._answer(1 + step * leaves, games, requests)
            if step + 1 < trees.steps:
                trees.expand_and_select(answered, requests)
            else:
                trees.expand(answered)
        clock.simulations += trees.steps * count
        clock.levels += trees.levels
        results: Results = trees.results()
        actions = trees.choose(temperature)
        clock.tree += trees.seconds - before
        clock.network += perf_counter() - started - (trees.seconds - before)
        raw = roots[:, legal.shape[1] :]
        return Plan(actions, results.policy, results.values, raw, results.visits)

    def _answer(self, first: int, games: int, requests: Requests) -> NDArray[np.float32]:
        """The network's outputs for what the trees ask; hidden states go to the nodes from `first` on."""
        leaves = self.trees.leaves
        count = leaves * games
        answers = self._answers[:count]
        if self.step is not None:
            self.step.advance(self._latents.numpy(), requests, first, games, self.config.backup, answers.numpy())
            return answers.numpy()
        latent, outputs = self._advance(games)
        self._latents[first : first + leaves, :games] = latent[:count].view(leaves, games, -1)
        if self.device.type == "cpu":
            return outputs[:count].float().numpy()
        answers.copy_(outputs[:count], non_blocking=True)
        torch.cuda.current_stream(self.device).synchronize()
        return answers.numpy()


def how_to_run(network: Network, config: SearchConfig) -> str:
    """How a network's recurrent step runs: as configured, "auto" resolved, "native" refused where it cannot be."""
    reason = unsupported_reason(network, config.bf16)
    if config.backend == "auto":
        return "compiled" if reason else "native"
    if config.backend == "native" and reason:
        raise ValueError(f"search.backend=native: {reason}")
    return config.backend


def _advance(network: Network, latents: Tensor, asked: Tensor, backup: str) -> tuple[Tensor, Tensor]:
    """latents [nodes B, L], asked [4, N], the rows of a `Requests` -> next latents [N, L], outputs [N, A + 2 V]."""
    parent, action, shift, to_play = asked
    return network.recurrent(latents[parent], action, shift, to_play, backup)


@cache
def _compiled_advance(kind: str, device: str) -> Callable[[Network, Tensor, Tensor, str], tuple[Tensor, Tensor]]:
    """`_advance` through torch.compile, which keeps a version per network structure and device, and unless the kind is
    "compiled_dynamic", per batch size."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _COMPILED_KINDS)
    if device == "cpu":  # one call into C++, during which other lanes may use the interpreter
        return torch.compile(_advance, dynamic=_DYNAMIC[kind], options={"cpp_wrapper": True})
    return torch.compile(
        _advance, dynamic=_DYNAMIC[kind], mode="reduce-overhead" if kind == "cuda_graphs" else "default"
    )


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    """Moves a tensor without waiting; on the CPU it stays where it is."""
    return tensor.to(device, non_blocking=True)
