"""Hard yardsticks of benchmarks: the machine's matrix product, counted work, CPU time, and where a step's time goes."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from muzero.model.layers import PackedLinear

# Kinds of operations, by parts of the names that torch's profiler gives them; the first match counts.
KINDS = {
    "native passes": ("Encode", "Step", "Predict"),
    "optimiser": ("Optimizer", "_fused_adamw", "lerp", "linalg_vector_norm"),
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "mkldnn"),
    "softmax and losses": ("softmax", "nll_loss", "binary_cross_entropy"),
    "copies and layout": ("copy", "cat", "clone", "contiguous", "stack", "split", "slice", "view", "as_strided"),
    "indexing and embeddings": ("index", "gather", "scatter", "embedding", "sort"),
    "normalisation": ("layer_norm",),
    "element-wise": ("aten::",),
}


def sgemm_flops(threads: int, size: int = 1024, repetitions: int = 9) -> float:
    """Floating-point operations per second of torch's product of square matrices in single precision, the median."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return _flops_per_s(lambda: a @ b, threads, size, repetitions)


def packed_flops(threads: int, size: int = 1024, repetitions: int = 9) -> float:
    """The same with a matrix that is packed beforehand, as searches of large networks multiply.

    Where torch's own product is MKL's, which keeps to AVX2 on other processors than Intel's, it may be twice as fast.
    """
    layer, x = PackedLinear(size, size), torch.randn(size, size)
    with torch.inference_mode():
        return _flops_per_s(lambda: layer(x), threads, size, repetitions)


def _flops_per_s(product: Callable[[], Any], threads: int, size: int, repetitions: int) -> float:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        product()
        taken = []
        for _ in range(repetitions):
            started = time.perf_counter()
            product()
            taken.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
    return 2 * size**3 / statistics.median(taken)


def clock(work: Callable[[], Any]) -> float:
    """Seconds of a call, the work that it left to a GPU included."""
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def flops_of(work: Callable[[], Any]) -> float:
    """Floating-point operations of the matrix products of a call, backward passes included."""
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def profile_by_kind(work: Callable[[], Any], repetitions: int = 10) -> dict[str, float]:
    """Share of a call's profiled CPU time by kind of operation; `autograd and other` is what fits no kind."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(repetitions):
            work()
    spent = dict.fromkeys((*KINDS, "autograd and other"), 0.0)
    for event in found.key_averages():
        kind = next((kind for kind, parts in KINDS.items() if any(part in event.key for part in parts)), None)
        spent[kind or "autograd and other"] += event.self_cpu_time_total
    return {kind: time_spent / sum(spent.values()) for kind, time_spent in spent.items()}


def cpu_seconds(processes: Iterable[int]) -> float:
    """CPU time that processes, with all of their threads, have used so far; 0 for one that has ended."""
    ticks = 0
    for process in processes:
        path = Path(f"/proc/{process}/stat")
        if path.exists():
            after_name = path.read_text().rpartition(")")[2].split()
            ticks += int(after_name[11]) + int(after_name[12])  # user and system time
    return ticks / os.sysconf("SC_CLK_TCK")
