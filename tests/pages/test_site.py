"""The documentation as a site: it needs nothing from elsewhere, and lists its pages for language models."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=120)
    assert (built.returncode, built.stderr) == (0, "")
    yield folder


def test_no_page_loads_anything_from_another_address(site: Path) -> None:
    loaded = [
        (str(page.relative_to(site)), address)
        for page in site.rglob("*.html")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text("utf-8"))
        for address in re.findall(r"""(?:src|href)=["']?([^"'\s>]+)""", tag)
        if re.match(r"(?:[a-z]+:)?//", address)
    ]
    assert loaded == []


def test_every_link_of_the_site_leads_to_a_file_of_it(site: Path) -> None:
    missing = [
        (str(page.relative_to(site)), address)
        for page in site.rglob("*.html")
        if page.name != "404.html"
        for address in re.findall(r"""<a\b[^>]*?href=["']?([^"'\s>#?]+)""", page.read_text("utf-8"))
        if not re.match(r"[a-z]+:", address) and not (page.parent / address).exists()
    ]
    assert missing == []


def test_every_page_is_listed_for_language_models_with_its_first_sentence(site: Path) -> None:
    lines = (site / "llms.txt").read_text("utf-8").splitlines()
    listed = [found.groups() for line in lines if (found := re.match(r"- \[.+\]\((.+)\)(: .+\.)?$", line))]
    pages = {str(page.relative_to(site)) for page in site.rglob("*.html")} - {"404.html"}
    assert {address for address, _ in listed} == pages
    assert [address for address, sentence in listed if not sentence] == []
    whole = (site / "llms-full.txt").read_text("utf-8")
    assert all(f"<!-- {address} -->" in whole for address in pages)


WORDS = {
    "install": "start/quickstart",
    "windows": "start/choose",
    "docker": "operate/deployment",
    "kubernetes": "operate/deployment",
    "claude code": "start/clients",
    "langchain": "start/clients",
    "ollama": "start/servers",
    "vllm": "start/servers",
    "timeout": "operate/troubleshooting",
    "api key": "operate/keys",
    "single sign-on": "operate/jwt",
    "oauth": "operate/jwt",
    "budget": "operate/limits",
    "rate limit": "operate/limits",
    "https": "operate/networks",
    "cors": "operate/security",
    "metrics": "operate/monitoring",
    "backup": "operate/state",
    "pii": "guides/guards",
    "mcp": "guides/server-tools",
    "json schema": "guides/structured-output",
    "pdf": "guides/files",
    "embeddings": "guides/other-endpoints",
    "fallback": "guides/routing",
}
"""What newcomers type into the search, and the page that they look for."""


def test_the_search_finds_the_words_of_newcomers_before_pages_that_name_everything(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]

    def has(entry: dict[str, str], words: str) -> bool:
        text = f"{entry['title']} {entry['text']}".lower()
        return all(word in text for word in words.split())

    for words, page in WORDS.items():
        assert any(entry["location"].startswith(page) and has(entry, words) for entry in entries), words
    behind = {entry["location"].partition("#")[0] for entry in entries if entry.get("boost", 1) < 1}
    assert {"changelog.html", "contributing.html", "reference/api.html", "evidence/compatibility.html"} <= behind
    assert not behind & {f"{page}.html" for page in WORDS.values()}


def test_every_diagram_has_a_picture_and_every_picture_a_diagram() -> None:
    diagrams = [
        text
        for page in WRITTEN
        for text in re.findall(r"^```mermaid\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    ]
    names = {f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.svg" for text in diagrams}
    assert names == {picture.name for picture in (ROOT / "docs/images/diagrams").iterdir()}


def test_no_text_of_a_picture_is_cut_off() -> None:
    """HTML in a picture is cut off at the size that it had on the machine which drew it."""
    pictures = [path.read_text("utf-8") for path in (ROOT / "docs/images/diagrams").iterdir()]
    assert not any("<foreignObject" in picture or "&lt;b&gt;" in picture for picture in pictures)
    assert all(re.match(r'<svg [^>]*\bwidth="\d+" height="\d+"', picture) for picture in pictures)


def test_no_page_is_in_the_navigation_twice() -> None:
    pages = re.findall(r"^ +- (?:[\w ]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert len(pages) > 30
    assert sorted(pages) == sorted(set(pages))


def test_the_site_has_the_colours_of_the_playground() -> None:
    playground = (ROOT / "app/playground/site/style.css").read_text("utf-8")
    site = (ROOT / "docs/styles/site.css").read_text("utf-8")
    found = re.search(r"--accent: light-dark\((#\w+), (#\w+)\)", playground)
    assert found is not None
    light, dark = found.groups()
    assert re.search(rf'^\[data-md-color-scheme="default"\] {{\n  --md-typeset-a-color: {light};', site, re.MULTILINE)
    assert f"--md-accent-fg-color: {light};" in site and f"--md-accent-fg-color: {dark};" in site
