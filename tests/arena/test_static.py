"""Static files of the page: nothing comes from elsewhere, and third-party code is what it says it is."""

from __future__ import annotations

import hashlib
import re

import pytest

from muzero.arena.server import STATIC

OWN = [path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts]


def test_third_party_code_has_the_hash_that_the_readme_states_and_its_licences() -> None:
    stated = dict(re.findall(r"\| `([\w.-]+)` \| `([0-9a-f]{64})` \|", (STATIC / "vendor" / "README.md").read_text()))
    code = {path.name: path for path in (STATIC / "vendor").glob("*.js")}
    assert stated.keys() == code.keys()
    for name, digest in stated.items():
        assert hashlib.sha256(code[name].read_bytes()).hexdigest() == digest
    assert len(list((STATIC / "vendor").glob("LICENSE-*"))) == 2


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_page_loads_nothing_from_elsewhere_and_evaluates_no_text(path: object) -> None:
    text = path.read_text()  # type: ignore[attr-defined]
    outside = [url for url in re.findall(r"https?://[^\s\"'`)]+", text) if "www.w3.org/2000/svg" not in url]
    assert outside == []
    assert not re.search(r"\beval\(|new Function|innerHTML|dangerouslySetInnerHTML|document\.write", text)
    assert "<script>" not in text
    assert " style=" not in text, "the content security policy forbids style attributes"


def test_every_module_that_is_imported_exists() -> None:
    for path in STATIC.rglob("*.js"):
        if path.parent.name != "vendor":
            for name in re.findall(r'from "(\.[^"]+)"', path.read_text()):
                assert (path.parent / name).resolve().exists(), f"{path.name} imports {name}"
