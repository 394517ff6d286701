"""Lock file: the versions of all packages that `make setup` installed, those that packages ask for included.

    python .ci/lock.py > requirements.lock

Printed are the packages of pyproject.toml (build, run time, development and the extras that are installed) and
everything they depend on, as found in the environment that runs this. `make setup CONSTRAINTS=requirements.lock`
installs exactly these.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def canonical(name: str) -> str:
    """Name of a package as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted() -> list[Requirement]:
    """Requirements that pyproject.toml states, without those of the optional comparison with mctx."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = config["project"]["optional-dependencies"]
    stated = [*config["build-system"]["requires"], *config["project"]["dependencies"], *groups["dev"]]
    return [Requirement(text) for text in stated]


def locked(requirements: list[Requirement]) -> dict[str, str]:
    """Installed versions of some packages and of everything they need, by name."""
    found: dict[str, str] = {}
    left = [(requirement, "") for requirement in requirements]
    while left:
        requirement, extra = left.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            installed = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        name = canonical(requirement.name)
        new = name not in found
        found[name] = installed.version.partition("+")[0]
        if new or requirement.extras:
            needs = [Requirement(text) for text in installed.requires or []]
            left += [(each, one) for each in needs for one in (*requirement.extras, "")]
    return found


if __name__ == "__main__":
    print(
        "# Made by .ci/lock.py (make lock): every package of `make setup`, with its version. It is a constraints file:"
    )
    print("#     make setup CONSTRAINTS=requirements.lock")
    for name, version in sorted(locked(wanted()).items()):
        print(f"{name}=={version}")
