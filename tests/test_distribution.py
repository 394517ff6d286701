"""Distribution: source archive, wheels for any processor, lock file, citation, changelog, containers, CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
NATIVE = ROOT / "muzero/model/native"


def canonical(name: str) -> str:
    """Name of a package as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_citation_and_changelog_tell_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version", "license"} <= set(citation)
    assert (citation["version"], citation["title"]) == (VERSION, PROJECT["project"]["name"])
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "Unreleased" or headings[0] == VERSION
    assert VERSION in headings


def test_lock_file_pins_everything_that_setup_installs() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    groups = PROJECT["project"]["optional-dependencies"]
    stated = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"], *groups["dev"]]
    for text in stated:
        requirement = Requirement(text)
        version = pins.get(canonical(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock: run make lock"
        assert requirement.specifier.contains(version, prereleases=True), (text, version)
    assert {"jinja2", "sympy", "filelock"} <= set(pins), "packages that torch asks for are pinned, too"
    pinned = re.findall(r"^(\w+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M)
    assert pinned
    assert all(pins[name] == version for name, version in pinned)


def test_workflow_runs_the_same_checks_as_everybody_else() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    commands = [step.get("run", "") for step in jobs["test"]["steps"]]
    assert ".ci/run" in commands
    files = re.findall(r"--file (\S+)", " ".join(step.get("run", "") for step in jobs["container"]["steps"]))
    assert files
    assert all((ROOT / name).exists() for name in files)


def test_containers_build_for_any_processor_and_copy_what_is_there() -> None:
    for name in ("Dockerfile", "belief-muzero.def"):
        text = (ROOT / "containers" / name).read_text()
        assert "cmake.define.BELIEF_BASELINE=ON" in text
    default = re.search(r"^ARG LOCK=(\S+)", (ROOT / "containers/Dockerfile").read_text(), re.M)
    assert default is not None
    assert (ROOT / default[1]).exists()
    settings = PROJECT["tool"]["cibuildwheel"]["config-settings"]
    assert settings == {"cmake.define.BELIEF_BASELINE": "ON", "cmake.define.BELIEF_NATIVE": "OFF"}


def test_steps_of_the_apptainer_recipe_are_good_shell() -> None:
    text = (ROOT / "containers/belief-muzero.def").read_text()
    sections = dict(re.findall(r"^%(\w+)\n(.*?)(?=^%|\Z)", text, re.M | re.S))
    assert {"files", "post", "environment", "runscript", "test"} <= set(sections)
    for name in ("post", "environment", "runscript", "test"):
        shell = [str(Path(sys.executable).with_name("shellcheck")), "--shell=sh", "--exclude=SC1091", "-"]
        done = subprocess.run(shell, input=sections[name], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("compiler", ["g++", "aarch64-linux-gnu-g++"])
@pytest.mark.parametrize("name", ["slot_kernel_base", "train_kernel_base"])
def test_portable_kernels_compile_for_a_processor_without_avx(name: str, compiler: str) -> None:
    """The widest vectors of plain x86-64 and aarch64 have four numbers; no header of intrinsics comes to help there."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}"]
    done = subprocess.run([*command, str(NATIVE / f"{name}.cpp")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build_sdist(place: Path) -> Path:
    """Build the source archive of this tree."""
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(place)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    (archive,) = place.glob("*.tar.gz")
    return archive


def test_source_archive_has_what_a_build_needs_and_no_results(tmp_path: Path) -> None:
    with tarfile.open(build_sdist(tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "CMakeLists.txt",
        "LICENSE",
        "README.md",
        "conf/config.yaml",
        "muzero/agents/shipped/skyjo-belief.safetensors",
    }
    sources = {
        str(path.relative_to(ROOT))
        for room in ("env", "mcts", "muzero", "native")
        for path in (ROOT / room).rglob("*.h")
    }
    assert needed | sources <= names
    assert not [name for name in names if name.startswith(("experiments/", "runs/", ".github/"))]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump")
@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the kernels that are picked at run time are those of x86-64"
)
def test_wheel_of_the_source_archive_needs_no_avx_and_picks_kernels_at_run_time(tmp_path: Path) -> None:
    wheel = ["pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path / "wheel")]
    options = ["-Ccmake.define.BELIEF_BASELINE=ON", str(build_sdist(tmp_path))]
    subprocess.run([sys.executable, "-m", *wheel, *options], check=True, capture_output=True)
    (made,) = (tmp_path / "wheel").glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "x")
    for room in ("env", "mcts"):
        (library,) = (tmp_path / "x" / room).glob("_native*.so")
        code = subprocess.run(["objdump", "-d", str(library)], capture_output=True, text=True, check=True).stdout
        assert "%xmm0" in code
        assert "%ymm" not in code
    # Isolated from this tree's own modules: neither the directory nor the editable installation is looked at.
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'x')!r}); "
        "sys.meta_path = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]; "
        "from muzero.model.native import _native; print(_native.__file__, *_native.kernels(), sep='\\n')"
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    path, *kernels = told.stdout.splitlines()
    assert path.startswith(str(tmp_path))
    assert "base" in kernels
    flags = Path("/proc/cpuinfo").read_text()
    assert ("avx2" in kernels) == (" avx2 " in flags)
