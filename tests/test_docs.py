"""Documents: links lead somewhere, pages are found from the index and in the site, figures are those of the run."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import env
from muzero.agents.agent_spec import shipped_agents, shipped_weights

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as sites of documents make them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    found = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in found}


def links(page: Path) -> list[str]:
    """Targets of the links and pictures of a page."""
    return LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    missing = []
    for link in links(page):
        if re.match(r"(https?|mailto):", link):
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (heading and target.suffix == ".md" and heading not in anchors(target)):
            missing.append(link)
    assert missing == []


def test_links_to_other_sites_are_encrypted_and_well_formed() -> None:
    outside = [link for page in PAGES for link in links(page) if link.startswith("http")]
    assert outside
    assert [link for link in outside if not re.fullmatch(r"https://[\w.-]+\.\w+(/[^\s]*)?", link)] == []


def named_pages(nav: Any) -> list[str]:
    """Pages of the site's navigation."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in named_pages(part)]


def test_every_page_is_in_the_site_and_reached_from_the_index() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert set(named_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])) == pages
    reached, left = set(), [DOCS / "index.md"]
    while left:
        page = left.pop()
        if page not in reached:
            reached.add(page)
            targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
            left += [target for target in targets if target in PAGES]
    assert {str(page.relative_to(DOCS)) for page in reached if DOCS in page.parents} == pages


def test_rules_for_people_tell_of_every_game() -> None:
    titles = anchors(DOCS / "rules.md")
    told = {title.replace("-", "") for title in titles}
    assert all(any(title.startswith(game) for title in told) for game in env.games()), titles


def test_pictures_are_well_formed_and_nothing_is_cut_off() -> None:
    root = ElementTree.parse(DOCS / "method.svg").getroot()
    width = float(str(root.get("width")))
    for node in root.iter("{http://www.w3.org/2000/svg}text"):
        size, text = float(node.get("font-size", "14")), node.text or ""
        if node.get("text-anchor") is None or node.get("text-anchor") == "start":
            assert float(str(node.get("x"))) + 0.52 * size * len(text) < width, text


def test_figures_of_a_good_run_are_those_of_the_run() -> None:
    path = ROOT / "experiments/results/skyjo_planner/belief/metrics.jsonl"
    rows = {row["iteration"]: row for row in map(json.loads, path.read_text().splitlines())}
    page = (DOCS / "good_run.md").read_text()
    for key, digits in (("value", 2), ("td_error", 2), ("policy", 2), ("reward", 3), ("outcome", 2)):
        cells = " | ".join(f"{rows[iteration]['losses'][key]:.{digits}f}" for iteration in (21, 101, 390))
        assert f"\n| `losses.{key}` | {cells} |" in page


def test_site_is_built_where_mkdocs_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "site/method/index.html").exists()


@pytest.mark.parametrize("name", shipped_agents())
def test_every_shipped_agent_has_a_model_card_of_its_file(name: str) -> None:
    """Data, recipe, strength and weaknesses; the hash ties the card to the weights that were measured."""
    cards = re.split(r"^## ", (DOCS / "models.md").read_text(), flags=re.M)[1:]
    (card,) = [card for card in cards if card.startswith(f"{name}\n")]
    for part in ("**Data.**", "**Recipe.**", "**Strength.**", "**Known weaknesses.**"):
        assert part in card
    assert re.search(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", card), "strength has intervals"
    weights = shipped_weights(name)
    assert str(weights.relative_to(ROOT)) in card
    assert hashlib.sha256(weights.read_bytes()).hexdigest() in card


def test_model_cards_are_of_shipped_agents() -> None:
    assert re.findall(r"^## (.+)$", (DOCS / "models.md").read_text(), re.M) == shipped_agents()
