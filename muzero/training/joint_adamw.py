"""AdamW over parameters that lie in one array per group: a step is a few operations instead of a few per parameter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw


def joint_views(array: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Parts of an array, one after the other, in the shapes of other tensors."""
    parts = torch.split(array, [tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


class JointAdamW(torch.optim.AdamW):
    """AdamW that moves the parameters of each group, their gradients and its own memory into joint arrays.

    Parameters, gradients and the entries of `state` are views of these arrays, so that everybody else can treat them
    one by one. A parameter without a gradient counts as one whose gradient is 0.

    Args:
      groups: parameters and weight decay of each group; all on one device.
      lr: learning rate.

    Attributes:
      values: array of each group's parameters.
      gradients: array of each group's gradients.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, lr=lr, fused=True)
        self.values = [_joined(group["params"]) for group in self.param_groups]
        self.gradients = [torch.zeros_like(values) for values in self.values]
        self._memory = [{key: torch.zeros_like(v) for key in ("exp_avg", "exp_avg_sq")} for v in self.values]
        self._steps = [torch.zeros((), device=values.device) for values in self.values]
        self._parts: list[tuple[nn.Parameter, Tensor]] = []  # parameters with their parts of `gradients`
        for group, values, gradients in zip(self.param_groups, self.values, self.gradients, strict=True):
            parameters = group["params"]
            for parameter, value in zip(parameters, joint_views(values, parameters), strict=True):
                parameter.data = value
            self._parts += zip(parameters, joint_views(gradients, parameters), strict=True)
        self.zero_grad()
        self._link()

    def _link(self) -> None:
        """Let the entries of `state` be views of the joint arrays."""
        for group, memory, steps in zip(self.param_groups, self._memory, self._steps, strict=True):
            parameters = group["params"]
            views = {key: joint_views(array, parameters) for key, array in memory.items()}
            for i, parameter in enumerate(parameters):
                self.state[parameter] = {"step": steps, **{key: views[key][i] for key in views}}

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set all gradients to 0; they stay views of the joint arrays, whatever `set_to_none` says."""
        for gradients in self.gradients:
            gradients.zero_()
        for parameter, part in self._parts:
            if parameter.grad is not part:
                parameter.grad = part

    @torch.no_grad()
    def clip(self, most: float) -> Tensor:
        """Scale all gradients so that their joint norm is at most `most`; returns the norm before."""
        norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in self.gradients]))
        factor = (most / (norm + 1e-6)).clamp(max=1.0)
        for gradients in self.gradients:
            gradients.mul_(factor)
        return norm

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make a step with the present gradients; a closure is not supported."""
        assert closure is None
        arrays = zip(self.param_groups, self.values, self.gradients, self._memory, self._steps, strict=True)
        for group, values, gradients, memory, steps in arrays:
            if not len(values):
                continue
            beta1, beta2 = group["betas"]
            adamw(
                [values],
                [gradients],
                [memory["exp_avg"]],
                [memory["exp_avg_sq"]],
                [],
                [steps],
                fused=True,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )

    def load_state_dict(self, state_dict: Any) -> None:
        """Copy a saved state into the joint arrays; memory that it does not have is 0."""
        super().load_state_dict(state_dict)
        for group, memory, steps in zip(self.param_groups, self._memory, self._steps, strict=True):
            parameters = group["params"]
            steps.zero_()
            for key, array in memory.items():
                for parameter, view in zip(parameters, joint_views(array, parameters), strict=True):
                    saved = self.state.get(parameter, {})
                    view.copy_(saved[key]) if key in saved else view.zero_()
                    if "step" in saved:
                        steps.copy_(saved["step"])
        self._link()


def _joined(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Values of parameters, one after the other."""
    return torch.cat([parameter.detach().flatten() for parameter in parameters]) if parameters else torch.zeros(0)
