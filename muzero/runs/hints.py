"""Commands in messages that run as they stand, whether the virtual environment is active or not."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def python_path() -> str:
    """Shortest name by which a shell in this directory starts the Python that runs now."""
    own = os.path.abspath(sys.executable)
    found = shutil.which("python")
    if found is not None and os.path.abspath(found) == own:
        return "python"
    try:
        inside = Path(own).relative_to(Path.cwd())
    except ValueError:
        return own
    return str(inside)


def command(module: str, *arguments: str | Path) -> str:
    """Command line that runs a module of this project with this Python."""
    return shlex.join([python_path(), "-m", module, *map(str, arguments)])
