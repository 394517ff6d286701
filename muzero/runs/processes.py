"""Processes: devices, child processes that end with their parent, and connections to Ray."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import torch


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


def die_with(parent: int) -> None:
    """End this process soon after the parent process with this id, however the parent ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def first_line(error: Exception) -> str:
    """First line of an error's message, or its type if the message is empty. Messages of Ray go on for pages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def join_ray(key: str, address: str, cpus: int) -> bool:
    """Connect to a Ray cluster, or start one on this machine.

    Args:
      key: configuration key of the address, for the error message.
      address: address of the cluster; "" starts a cluster on this machine alone.
      cpus: number of CPUs of a cluster that is started here.

    Returns:
      Whether this call has connected; False if this process was connected already.
    """
    import ray

    if ray.is_initialized():
        return False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    here = {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        _require_answer(address)
        ray.init(**settings, **({"address": address} if address else here))
    except OSError as error:  # a ConnectionError is an OSError, too
        if not address:
            raise
        reason = first_line(error)
        raise ValueError(f"{key}: expected a Ray cluster that can be reached, got {address!r} ({reason})") from None
    return True


def _require_answer(address: str) -> None:
    """Raise OSError if nothing answers at host:port; Ray itself would wait forever."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
