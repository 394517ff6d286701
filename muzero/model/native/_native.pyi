from collections.abc import Mapping
from typing import Annotated

from numpy.typing import NDArray


def kernels() -> list[str]: ...

class SlotNetwork:
    def __init__(self, kernel: str, sizes: Mapping[str, int], indices: Mapping[str, Annotated[NDArray, dict(device='cpu', writable=False)]]) -> None: ...

    def load(self, weights: Mapping[str, Annotated[NDArray, dict(device='cpu', writable=False)]]) -> None: ...

    def advance(self, latents: Annotated[NDArray, dict(device='cpu')], parent: Annotated[NDArray, dict(device='cpu', writable=False)], action: Annotated[NDArray, dict(device='cpu', writable=False)], shift: Annotated[NDArray, dict(device='cpu', writable=False)], outcome: Annotated[NDArray, dict(device='cpu', writable=False)], to_play: Annotated[NDArray, dict(device='cpu', writable=False)], first: int, games: int, only_root: bool, outputs: Annotated[NDArray, dict(device='cpu')]) -> None: ...
