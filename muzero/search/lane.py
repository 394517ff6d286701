"""The search loop: trees grow in C++ on the CPU, the network runs on its device, where the hidden states stay.

Per simulation step one small block of indices goes to the device and one block of network outputs comes back; nothing
else waits for the transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import env
from mcts import ActionTable, Config, Requests, Search
from muzero.config.fields import require
from muzero.search.plan import Analysis, Plan

if TYPE_CHECKING:
    from muzero.config import SearchConfig
    from muzero.model.interface import BaseNetwork
    from muzero.model.spec import GameSpec
    from muzero.search.backend import NativeStep

# Backends that go through torch.compile, and whether sizes are dynamic (None: only those marked as such).
COMPILED_BACKENDS = {"compiled": False, "cuda_graphs": False, "compiled_dynamic": None}
_MOST_VERSIONS = 256  # most compiled versions of one function: per network, batch size, device and thread count
_LINE = 8  # most actions of the principal line in an analysis
_FEWEST_ROWS = 2  # fewest rows of a compiled_dynamic call: torch compiles a single row separately


@dataclass
class Clock:
    """Time and work of a lane since it was made.

    Attributes:
      encoder: seconds spent in representation and prediction of the roots.
      network: seconds spent in recurrent calls, transfers and waiting included.
      tree: seconds spent in selection, expansion and backup.
      simulations: number of simulations, over all games.
      levels: number of tree levels walked.
    """

    encoder: float = 0.0
    network: float = 0.0
    tree: float = 0.0
    simulations: int = 0
    levels: int = 0


def tree_config(config: SearchConfig) -> Config:
    """Settings of the trees: the fields of a `SearchConfig` that `mcts.Config` has too."""
    return Config(**{field.name: getattr(config, field.name) for field in Config.fields()})


class Lane:
    """Searches up to `batch` games at a time, over one arena of trees and hidden states.

    Args:
      network: network to search with, on the device that it runs on; used in inference mode.
      config: settings of the search, with its backend resolved.
      batch: largest number of games that are searched at a time.
      step: native step of the network; None runs the recurrent step in torch.
    """

    def __init__(self, network: BaseNetwork, config: SearchConfig, batch: int, step: NativeStep | None) -> None:
        self.config, self.network, self.step, self.batch = config, network, step, batch
        self.device = next(network.parameters()).device
        spec = network.spec
        self.trees = Search(
            tree_config(config),
            batch=batch,
            num_actions=spec.num_actions,
            num_players=spec.num_players,
            phase_table=spec.phases_for(network.config),
            mover_frame=network.frame == "mover",
            num_outcomes=network.num_outcomes,
            equivalence=_action_table(spec) if config.merge and spec.num_slots else None,
        )
        self._slot_classes = env.SlotClasses(spec.game, spec.num_players) if config.merge and spec.num_slots else None
        self._source = config.chance_source if network.num_outcomes > 1 else "learned"
        if network.learned_codes and self._source in ("exact", "cards"):
            require(False, "search.chance_source", "learned or uniform with model.chance=learned", self._source)
        if self._source == "exact":
            other = f"another source: {spec.game} shows no counts of unseen cards"
            require(spec.counts is not None, "search.chance_source", other, "exact")
        if self._source == "cards":
            believes = network.config.card_beliefs
            require(believes, "search.chance_source", "another source without model.card_beliefs", "cards")
        self.clock = Clock()
        rows = max(_FEWEST_ROWS, self.trees.leaves * batch)
        outcomes = network.num_outcomes if network.num_outcomes > 1 else 0
        self._width = spec.num_actions + outcomes + 2 * self.trees.num_values  # numbers in a row of network outputs
        shape = (self.trees.nodes, batch, network.latent_dim)
        if self.device.type == "cpu":  # numpy asks for large pages; `full` touches the memory now, not in the search
            self._latents = torch.from_numpy(np.full(shape, 0, np.float32))
        else:
            self._latents = torch.zeros(shape, device=self.device)
        pinned = self.device.type == "cuda"
        self._requests = torch.zeros(5, rows, dtype=torch.int64, pin_memory=pinned)
        self._outputs = torch.zeros(rows, self._width, pin_memory=pinned)
        self._host_outputs = self._outputs.numpy()

    @property
    def bytes(self) -> int:
        """Memory of the trees and hidden states in bytes."""
        return self.trees.bytes + self._latents.numel() * self._latents.element_size()

    @torch.inference_mode()
    def run_network(self) -> None:
        """Call the network once for the full batch, as the last simulation does. The first call compiles: seconds."""
        if not self.trees.steps:
            return
        leaves = self.trees.leaves
        rows, first = leaves * self.batch, self.trees.nodes - leaves
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.bf16):
            self._evaluate(first, self.batch, Requests(*self._requests[:, :rows].numpy()))

    @torch.inference_mode()
    def plan(
        self,
        obs: NDArray[np.int16],
        legal: NDArray[np.uint64],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float,
    ) -> Plan:
        """See `Planner.plan`."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.bf16):
            latent, roots = self._roots(obs)
            free = np.flatnonzero(legal & (legal - np.uint64(1)))  # positions with more than one legal action
            if not self.config.skip_forced or len(free) == len(obs):
                return self._search(obs, latent, roots, legal, phase, keys, temperature)
            plan = self._forced(roots, legal)
            if len(free):
                rows = _to(torch.from_numpy(free), self.device)
                given = obs[free], latent[rows], roots[free], legal[free], phase[free], keys[free]
                found = self._search(*given, temperature)
                for name in (f.name for f in fields(Plan)):
                    getattr(plan, name)[free] = getattr(found, name)
            return plan

    @torch.inference_mode()
    def analyse(
        self,
        obs: NDArray[np.int16],
        legal: NDArray[np.uint64],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float,
    ) -> Analysis:
        """See `Planner.analyse`."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.bf16):
            latent, roots = self._roots(obs)
            plan = self._search(obs, latent, roots, legal, phase, keys, temperature)
        found, A = self.trees.results(), self.network.spec.num_actions
        allowed = (legal[:, None] >> np.arange(A, dtype=np.uint64) & np.uint64(1)).astype(bool)
        logits = np.where(allowed, roots[:, :A], -np.inf)
        prior = np.exp(logits - logits.max(1, keepdims=True))
        prior = (prior / prior.sum(1, keepdims=True)).astype(np.float32)
        q = np.where(found.visits > 0, found.q, np.float32(np.nan))
        lines = self.trees.principal_lines(plan.actions, _LINE)
        return Analysis(plan.actions, plan.policy, plan.values, prior, found.visits, q, lines)

    def _roots(self, obs: NDArray[np.int16]) -> tuple[Tensor, NDArray[np.float32]]:
        """Latents [B, L] and outputs [B, A + V] of the roots; logits are divided by the prior temperature."""
        started = perf_counter()
        found = self.step.initial(obs, self.config.backup) if self.step is not None else None
        if found is not None:
            latent, roots = torch.from_numpy(found[0]), found[1]
        else:
            latent, outputs = self.network.initial(_to(torch.from_numpy(obs), self.device), self.config.backup)
            roots = outputs.float().cpu().numpy()
        roots[:, : self.network.spec.num_actions] /= self.config.prior_temperature
        self.clock.encoder += perf_counter() - started
        return latent, roots

    def _forced(self, roots: NDArray[np.float32], legal: NDArray[np.uint64]) -> Plan:
        """Plan for positions with one legal action: that action, and the network's value."""
        A = self.network.spec.num_actions
        actions = np.log2(legal).astype(np.int64)  # the logarithm is exact where one bit is set
        policy = np.zeros((len(legal), A), np.float32)
        policy[np.arange(len(legal)), actions] = 1.0
        return Plan(actions, policy, roots[:, A:].copy())

    def _search(
        self,
        obs: NDArray[np.int16],
        latent: Tensor,
        roots: NDArray[np.float32],
        legal: NDArray[np.uint64],
        phase: NDArray[np.int8],
        keys: NDArray[np.uint64],
        temperature: float,
    ) -> Plan:
        """Search from observations [B, W], latents [B, L] and outputs [B, A + V] of the roots."""
        trees, clock, games = self.trees, self.clock, len(latent)
        started, before = perf_counter(), trees.seconds
        classes = self._slot_classes(obs) if self._slot_classes is not None else None
        counts, absent = self._counts(obs, latent), self._absent(obs)
        trees.begin(roots, legal, phase, keys, counts=counts, classes=classes, absent=absent)
        leaves = trees.leaves
        count = leaves * games
        self._latents[0, :games] = latent
        requests = Requests(*self._requests[:, :count].numpy())
        if trees.steps:
            trees.select(requests)
        for step in range(trees.steps):
            outputs = self._evaluate(1 + step * leaves, games, requests)
            if step + 1 < trees.steps:
                trees.expand_and_select(outputs, requests)
            else:
                trees.expand(outputs)
        clock.simulations += trees.steps * count
        clock.levels += trees.levels
        policy, values = trees.targets()
        actions = trees.choose(temperature)
        clock.tree += trees.seconds - before
        clock.network += perf_counter() - started - (trees.seconds - before)
        return Plan(actions, policy, values)

    def _counts(self, obs: NDArray[np.int16], latent: Tensor) -> NDArray[np.int16] | NDArray[np.float32] | None:
        """Unseen cards [B, pools, O - 1], exact or as the network believes; None if chance is not weighed by them."""
        spec, kinds = self.network.spec, self.network.num_outcomes - 1
        if self._source == "exact":
            return obs[:, spec.counts].reshape(len(obs), -1, kinds)
        if self._source == "cards":
            pools = 1 if spec.phase_table.pool is None else int(spec.phase_table.pool.max()) + 1
            believed = self.network.card_counts(latent).cpu().numpy()
            return np.repeat(believed[:, None], pools, 1)
        return None

    def _absent(self, obs: NDArray[np.int16]) -> NDArray[np.uint64] | None:
        """Players who have left the round [B], a bit for each, from the player to move on; None if none can."""
        spec = self.network.spec
        if spec.absent is None:
            return None
        seats = np.arange(spec.num_players, dtype=np.uint64)
        bits: NDArray[np.uint64] = (obs[:, spec.absent] > 0) @ (np.uint64(1) << seats)
        return bits

    def _evaluate(self, first: int, games: int, requests: Requests) -> NDArray[np.float32]:
        """Network outputs of the requests [L * games, ...]; hidden states go to the nodes from `first` on."""
        leaves = self.trees.leaves
        count = leaves * games
        answers = self._host_outputs[:count]
        if self.step is not None:
            self.step.advance(self._latents.numpy(), requests, first, games, self.config.backup, answers)
            return answers
        latent, outputs = self._recurrent(games)
        self._latents[first : first + leaves, :games] = latent[:count].view(leaves, games, -1)
        if self.device.type == "cpu":
            return outputs[:count].float().numpy()
        self._outputs[:count].copy_(outputs[:count], non_blocking=True)
        torch.cuda.current_stream(self.device).synchronize()
        return answers

    def _recurrent(self, games: int) -> tuple[Tensor, Tensor]:
        """Next latents and outputs for the requests of so many games, perhaps followed by rows to be ignored.

        A network compiled for one size takes the full batch; less than half a batch is quicker without compilation.
        """
        rows, backend = self.trees.leaves * games, self.config.backend
        latents, requests = self._latents.flatten(0, 1), _to(self._requests, self.device)
        if backend == "eager" or (backend != "compiled_dynamic" and 2 * games < self.batch):
            return _recurrent(self.network, latents, requests[:, :rows], self.config.backup)
        if backend == "compiled_dynamic":
            requests = requests[:, : max(rows, _FEWEST_ROWS)]
            torch._dynamo.maybe_mark_dynamic(latents, 0)
            torch._dynamo.maybe_mark_dynamic(requests, 1)
        return _compiled_recurrent(backend, self.device.type)(self.network, latents, requests, self.config.backup)


def _recurrent(network: BaseNetwork, latents: Tensor, requests: Tensor, backup: str) -> tuple[Tensor, Tensor]:
    """latents [nodes B, L], requests [5, N], the rows of a `Requests` -> next latents [N, L], outputs [N, ...]."""
    parent, action, shift, to_play, outcome = requests
    return network.recurrent(latents[parent], action, shift, to_play, outcome, backup)


def _action_table(spec: GameSpec) -> ActionTable:
    """Slots that actions touch, as the trees take them."""
    block_of = np.empty(spec.blocks.size, np.int64)
    block_of[spec.blocks] = np.arange(len(spec.blocks))[:, None]
    return ActionTable(spec.kinds, spec.action_slots, spec.action_roles, block_of)


@cache
def _compiled_recurrent(
    backend: str, device: str
) -> Callable[[BaseNetwork, Tensor, Tensor, str], tuple[Tensor, Tensor]]:
    """`_recurrent` through torch.compile, which keeps one version per network structure and device and, unless the
    backend is "compiled_dynamic", per batch size."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _MOST_VERSIONS)
    dynamic = COMPILED_BACKENDS[backend]
    if device == "cpu":  # a single call into C++, during which other lanes may use the interpreter
        return torch.compile(_recurrent, dynamic=dynamic, options={"cpp_wrapper": True})
    return torch.compile(_recurrent, dynamic=dynamic, mode="reduce-overhead" if backend == "cuda_graphs" else "default")


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor to a device without waiting; on the CPU it stays where it is."""
    return tensor.to(device, non_blocking=True)
