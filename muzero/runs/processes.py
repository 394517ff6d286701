"""Processes: devices, child processes that end with their parent, and connections to Ray."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from muzero.runs import ray_watchdog

_log = logging.getLogger(__name__)

_LOG_FILES = "RAY_LOG_MONITOR_MAX_OPEN_FILES"  # environment variable of Ray
_watchdog: subprocess.Popen[bytes] | None = None  # process that ends what Ray leaves behind


class WorkerDied(RuntimeError):
    """Error: processes or actors that play games have died, or cannot start."""


def pick_device(name: str) -> torch.device:
    """Device with this name; "auto" is a GPU if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        expected = "auto, cpu or a device of this machine"
        raise ValueError(f"runtime.device: expected {expected}, got {name!r} ({first_line(error)})") from None
    return device


def multiplies_bf16(device: torch.device) -> bool:
    """Tell whether a device multiplies in bfloat16 natively (emulation is slower than single precision)."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    there = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return device.type == "cpu" and any(found() for found in there if found is not None)


def die_with(parent: int) -> None:
    """End this process soon after the parent process with this id, however the parent ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def last_words(words: Connection) -> Iterator[None]:
    """Send the reason of an error, with which a child process will end, to the parent."""
    try:
        yield
    except BaseException as error:
        with suppress(OSError):
            words.send(f"{type(error).__name__}: {error}"[:1000])
        raise


def reason_of_death(process: BaseProcess, words: Connection | None = None) -> str:
    """Reason why a child process has ended: its last words, the signal that killed it, or its exit code.

    Memory is named only if the system has counted a process that it ended for want of memory since this one began.
    """
    process.join(5)
    with suppress(EOFError, OSError):
        if words is not None and words.poll():
            return str(words.recv())
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        starved = name == "SIGKILL" and memory_kills() > _KILLS_BEFORE
        return f"killed by {name}" + (": memory ran out (the system has counted it)" if starved else "")
    return f"exit code {code}"


def memory_kills() -> int:
    """Processes that the system has ended for want of memory, by the kernel's counters; 0 where there are none."""
    found = 0
    for path in (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat")):
        with suppress(OSError, ValueError):
            rows = dict(line.split() for line in path.read_text().splitlines() if len(line.split()) == 2)
            found += int(rows.get("oom_kill", 0))
    return found


_KILLS_BEFORE = memory_kills()  # when this process began


def first_line(error: Exception) -> str:
    """First line of an error's message, or its type if the message is empty. Messages of Ray go on for pages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def join_ray(key: str, address: str, cpus: int, dashboard: int = 0) -> bool:
    """Connect to a Ray cluster, or start one on this machine.

    Args:
      key: configuration key of the address, for the error message.
      address: address of the cluster; "" starts a cluster on this machine alone.
      cpus: number of CPUs of a cluster that is started here.
      dashboard: port of the dashboard of a cluster that is started here, on 127.0.0.1 alone; 0 for none.

    Returns:
      Whether this call has connected; False if this process was connected already.
    """
    import ray

    if ray.is_initialized():
        return False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    here: dict[str, Any] = {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    if dashboard:
        _require_dashboard()
        # Loopback only: whoever reaches the dashboard can start programs.
        here |= {"include_dashboard": True, "dashboard_host": "127.0.0.1", "dashboard_port": dashboard}
        _log.info("Ray's dashboard: http://127.0.0.1:%d", dashboard)
    if not address:
        _start_watchdog()
        os.environ.setdefault(_LOG_FILES, "16")  # Ray would keep two files of each actor that ever died open, up to 200
    try:
        _require_answer(address)
        ray.init(**settings, **({"address": address} if address else here))
    except OSError as error:  # a ConnectionError is an OSError, too
        if not address:
            raise
        reason = first_line(error)
        raise ValueError(f"{key}: expected a Ray cluster that can be reached, got {address!r} ({reason})") from None
    return True


def _require_dashboard() -> None:
    """Refuse a dashboard that the installed Ray does not have."""
    try:
        import ray.dashboard.optional_deps  # noqa: F401
    except ImportError as error:
        hint = "a Ray with its dashboard: pip install -c constraints.txt 'ray[default]'"
        raise ValueError(f"runtime.dashboard: expected {hint}, got one without ({error})") from None


def leave_ray() -> None:
    """Disconnect from Ray, and stop the cluster if it was started here."""
    global _watchdog
    import ray

    ray.shutdown()
    if _watchdog is not None:
        _watchdog.kill()
        _watchdog.wait()
        _watchdog = None


def _start_watchdog() -> None:
    """Start the process that ends what Ray leaves behind when this process is killed; Linux only."""
    global _watchdog
    if sys.platform == "linux" and (_watchdog is None or _watchdog.poll() is not None):
        command = [sys.executable, "-I", str(ray_watchdog.__file__), str(os.getpid())]
        _watchdog = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


def _require_answer(address: str) -> None:
    """Raise OSError if nothing answers at host:port; Ray itself would wait forever."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
