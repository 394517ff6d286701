"""Web server: `python -m muzero.arena port=8000`; `--help` explains the keys."""

import sys

try:
    from muzero.arena.command import main
except ModuleNotFoundError as missing:
    if missing.name not in ("fastapi", "uvicorn", "starlette"):
        raise
    sys.exit(f"error: {missing.name} is missing: pip install 'belief-muzero[arena]' has what the server needs")

if __name__ == "__main__":
    sys.exit(main())
