"""Keys that are pressed in a terminal while a display is shown."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Keys:
    """Thread that calls a function with every key; does nothing where nobody can press one.

    The terminal gives keys at once, without echo, until `close`; Ctrl-C still is a signal.

    Args:
      pressed: function that is called with the character.
      file: descriptor of the terminal; by default that of stdin.
    """

    def __init__(self, pressed: Callable[[str], None], file: int | None = None) -> None:
        self._pressed = pressed
        self._before: list[Any] | None = None
        self._over = threading.Event()
        try:
            self._file = sys.stdin.fileno() if file is None else file
            # A process in the background would be stopped by the system for changing the terminal.
            if os.isatty(self._file) and os.tcgetpgrp(self._file) == os.getpgrp():
                self._before = termios.tcgetattr(self._file)
                tty.setcbreak(self._file, termios.TCSANOW)
        except (OSError, ValueError, AttributeError, termios.error):
            self._before = None
        if self._before is not None:
            self._thread = threading.Thread(target=self._watch, name="keys", daemon=True)
            self._thread.start()

    @property
    def active(self) -> bool:
        """Whether keys are read."""
        return self._before is not None

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                ready, _, _ = select.select([self._file], [], [], 0.2)
                key = os.read(self._file, 1) if ready else b""
            except OSError:
                return
            if ready and not key:  # the terminal has gone
                return
            if key:
                self._pressed(key.decode(errors="replace"))

    def close(self) -> None:
        """Stop reading, and give the terminal back as it was."""
        if self._before is None:
            return
        self._over.set()
        self._thread.join(1.0)
        with suppress(termios.error):
            termios.tcsetattr(self._file, termios.TCSANOW, self._before)
        self._before = None
