"""Parameters of a network as the arrays that C++ takes, one per part, and gradients of these arrays on their way back.

Most numbers of these arrays are parameters, transposed, put together or padded; the others are computed from
parameters. Which is which is found out once, by looking where numbers come from and where gradients go to. Parameters
then travel by two indexed copies, one in each direction, instead of a hundred operations of torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from muzero.model.native import _native

if TYPE_CHECKING:
    from muzero.model.network import Network

Layout = Sequence[tuple[str, int, int]]  # names, rows and columns of tensors that lie one after the other
TensorsOf = Callable[["Network"], Sequence[Mapping[str, Tensor]]]  # network -> tensors of each part, by name
_MOST = 1 << 24  # numbers up to this one are exact in single precision


def flat(layout: Layout, tensors: Mapping[str, Tensor]) -> Tensor:
    """One array of all parameters in the order of a layout; rows and columns that are missing are padded with zeros."""
    assert {name for name, rows, columns in layout if rows * columns} == set(tensors), sorted(tensors)
    return torch.cat([_padded(tensors[name], *shape).reshape(-1) for name, *shape in layout if shape[0] * shape[1]])


def _padded(tensor: Tensor, rows: int, columns: int) -> Tensor:
    tensor = tensor if tensor.ndim == 2 else tensor.unsqueeze(0)
    if tensor.shape == (rows, columns):
        return tensor
    return F.pad(tensor, (0, columns - tensor.shape[1], 0, rows - tensor.shape[0]))


class Packing:
    """Origin of every number of the arrays of a network's parts.

    Args:
      network: network with the parameters.
      layouts: layout of each part's array.
      tensors_of: function that computes the tensors of each part from a network.
      computed_of: function that computes only those that are more than parameters in another order.

    Attributes:
      sizes: size of each part's array.
    """

    def __init__(
        self, network: Network, layouts: Sequence[Layout], tensors_of: TensorsOf, computed_of: TensorsOf
    ) -> None:
        self._layouts = [[entry for entry in layout if entry[1] * entry[2]] for layout in layouts]
        self._shapes = {(part, name): shape for part, layout in enumerate(self._layouts) for name, *shape in layout}
        self._computed_of = computed_of
        self.sizes = [sum(rows * columns for _, rows, columns in layout) for layout in self._layouts]
        probe = copy.deepcopy(network)
        parameters = list(probe.parameters())
        for parameter in parameters:
            parameter.requires_grad_(True)
        ends = np.cumsum([parameter.numel() for parameter in parameters])
        assert ends[-1] < _MOST, f"expected fewer than {_MOST} parameters, got {ends[-1]}"
        with torch.no_grad():
            for parameter, end in zip(parameters, ends.tolist(), strict=True):
                numbers = torch.arange(end - parameter.numel(), end, dtype=torch.float32)
                parameter.copy_(numbers.view(parameter.shape) + 1)
        origins = self._look(probe, tensors_of)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in parameters:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        values = torch.cat([torch.zeros(1), *(parameter.detach().flatten() for parameter in parameters)]).numpy()
        source = np.zeros(sum(self.sizes), np.int64)  # 1 + number of the parameter that an entry is, 0: none
        computed = computed_of(probe)
        self._computed: list[tuple[int, str, int, int]] = []  # part, name, first entry and number of entries
        for part, name, first, tensor in self._entries(tensors_of(probe)):
            given = origins[part, name]
            if name in computed[part]:
                self._computed.append((part, name, first, len(given)))
                continue
            assert self._is_copy(tensor, given, values, parameters, generator), f"{name} is no copy of parameters"
            source[first : first + len(given)] = given
        self._lay_out(network, source, ends)

    def _entries(self, tensors: Sequence[Mapping[str, Tensor]]) -> list[tuple[int, str, int, Tensor]]:
        """Part, name, first entry and padded contents [entries] of every tensor."""
        found, first = [], 0
        for part, layout in enumerate(self._layouts):
            assert {name for name, _, _ in layout} == set(tensors[part]), sorted(tensors[part])
            for name, rows, columns in layout:
                found.append((part, name, first, _padded(tensors[part][name], rows, columns).reshape(-1)))
                first += rows * columns
        return found

    def _look(self, probe: Network, tensors_of: TensorsOf) -> dict[tuple[int, str], NDArray[np.int64]]:
        """1 + number of the parameter that each entry seems to be, if every parameter is 1 + its own number."""
        with torch.no_grad():
            entries = self._entries(tensors_of(probe))
        return {
            (part, name): tensor.clamp(0, _MOST).nan_to_num().round().to(torch.int64).numpy()
            for part, name, _, tensor in entries
        }

    @staticmethod
    def _is_copy(
        tensor: Tensor,
        origin: NDArray[np.int64],
        values: NDArray[np.float32],
        parameters: Sequence[nn.Parameter],
        generator: torch.Generator,
    ) -> bool:
        """Whether entries are what `origin` says, each parameter at most once, and gradients go back the same way."""
        used = origin[origin > 0]
        if (origin >= len(values)).any() or len(np.unique(used)) != len(used):
            return False
        if not np.array_equal(tensor.detach().numpy(), values[origin]):
            return False
        if not tensor.requires_grad:
            return not len(used)
        weights = torch.randn(len(tensor), generator=generator)
        gradients = torch.autograd.grad((tensor * weights).sum(), parameters, allow_unused=True)
        whole = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]
        expected = np.zeros(len(values), np.float32)
        expected[origin] = weights.numpy()
        return np.array_equal(torch.cat([g.flatten() for g in whole]).numpy(), expected[1:])

    def _lay_out(self, network: Network, source: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Number the inputs of `gather`: tensors that are computed, then the parameters that are copied."""
        copied = np.zeros(ends[-1] + 1, bool)
        copied[source] = True
        owners = [(m, name, p) for m in network.modules() for name, p in m._parameters.items() if p is not None]
        place = {id(parameter): i for i, parameter in enumerate(network.parameters())}
        self._owners: list[tuple[nn.Module, str]] = []  # modules and names of the parameters that are copied
        shift = np.zeros(ends[-1] + 1, np.int64)  # from the number among all parameters to that among the inputs
        size = sum(count for *_, count in self._computed)
        index = np.zeros(len(source), np.int64)
        done = 0
        for _, _, first, count in self._computed:
            index[first : first + count] = np.arange(done, done + count) + 1
            done += count
        seen = set()
        for module, name, parameter in owners:
            i = place[id(parameter)]
            begin, end = int(ends[i]) - parameter.numel(), int(ends[i])
            if i in seen or not copied[begin + 1 : end + 1].any():
                continue
            seen.add(i)
            self._owners.append((module, name))
            shift[begin + 1 : end + 1] = size - begin
            size += parameter.numel()
        mine = source > 0
        index[mine] = source[mine] + shift[source[mine]]
        self._index = index.astype(np.int32)  # [entries] 1 + number of the input, 0: none
        # Backward: each number of the inputs is an entry, or none, and perhaps further entries.
        order = np.argsort(index, kind="stable")
        order = order[index[order] > 0]
        numbers = index[order] - 1
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        rank = np.arange(len(numbers)) - np.repeat(starts, np.diff(starts, append=len(numbers)))
        self._entry = np.full(size, len(index), np.int32)  # [numbers] first entry, or the one past the end, which is 0
        self._entry[numbers[starts]] = order[starts]
        self._again = [(numbers[rank == k], order[rank == k]) for k in range(1, int(rank.max(initial=0)) + 1)]
        self._inputs, self._theta = np.zeros(size + 1, np.float32), np.zeros(len(index), np.float32)
        self._d_theta = np.zeros(len(index) + 1, np.float32)

    def inputs(self, network: Network) -> list[Tensor]:
        """Tensors that the arrays are made of: computed ones, then parameters."""
        tensors = self._computed_of(network)
        computed = [_padded(tensors[part][name], *self._shapes[part, name]) for part, name, *_ in self._computed]
        return computed + [getattr(module, name) for module, name in self._owners]

    def gather(self, native: _native.SlotTrainer, inputs: Sequence[Tensor]) -> list[NDArray[np.float32]]:
        """Array of each part; valid until the next call."""
        whole = torch.from_numpy(self._inputs)[1:]
        torch.cat([tensor.detach().reshape(-1) for tensor in inputs], out=whole)
        _native.copy_indexed(native, self._inputs, self._index, self._theta)
        return np.split(self._theta, np.cumsum(self.sizes)[:-1])

    def scatter(
        self,
        native: _native.SlotTrainer,
        write: Callable[[int, NDArray[np.float32]], None],
        inputs: Sequence[torch.Size],
    ) -> list[Tensor]:
        """Gradients of the inputs.

        Args:
          native: trainer whose threads do the work.
          write: function that writes the gradient of a part's array, given the part's number.
          inputs: shapes of the inputs.
        """
        for part, array in enumerate(np.split(self._d_theta[:-1], np.cumsum(self.sizes)[:-1])):
            write(part, array)
        out = torch.empty(len(self._entry))
        _native.copy_indexed(native, self._d_theta, self._entry, out.numpy())
        for numbers, entries in self._again:
            out.numpy()[numbers] += self._d_theta[entries]
        parts = torch.split(out, [shape.numel() for shape in inputs])
        return [part.view(shape) for part, shape in zip(parts, inputs, strict=True)]
