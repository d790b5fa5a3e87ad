"""The documentation as a site: it needs nothing from elsewhere, and lists its pages for language models."""

import hashlib
import os
import re
import shutil
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
    "api key": "operate/keys",
    "backup": "operate/state",
    "budget": "operate/limits",
    "cache": "guides/cache",
    "claude code": "start/clients",
    "codex": "start/clients",
    "cors": "operate/security",
    "cost": "operate/usage",
    "docker": "operate/deployment",
    "embeddings": "guides/other-endpoints",
    "fallback": "guides/routing",
    "function calling": "guides/tools",
    "gemini": "start/clients",
    "guardrails": "guides/guards",
    "https": "operate/networks",
    "install": "start/quickstart",
    "json schema": "guides/structured-output",
    "jwt": "operate/jwt",
    "kubernetes": "operate/deployment",
    "langchain": "start/clients",
    "litellm": "guides/from-litellm",
    "load balancing": "guides/routing",
    "log": "operate/logs",
    "mcp": "guides/server-tools",
    "metrics": "reference/metrics",
    "oauth": "operate/jwt",
    "ollama": "start/servers",
    "pdf": "guides/files",
    "pii": "guides/guards",
    "playground": "guides/playground",
    "proxy": "operate/networks",
    "rate limit": "operate/limits",
    "single sign-on": "operate/jwt",
    "streaming": "reference/streams",
    "thinking": "concepts",
    "timeout": "reference/streams",
    "tools": "guides/tools",
    "upgrade": "operate/upgrades",
    "vllm": "start/servers",
    "web search": "guides/server-tools",
    "windows": "start/choose",
}
"""What newcomers type into the search, and the page that they look for."""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_first_hit_of_the_search_is_the_page_that_a_newcomer_looks_for(site: Path) -> None:
    (worker,) = (site / "assets/javascripts/workers").glob("search.*.js")
    files = (Path(__file__).with_name("search.js"), worker, site / "search/search_index.json")
    command = ["node", *map(str, files), *WORDS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    hits = dict(zip(WORDS, done.stdout.splitlines(), strict=True))
    assert {word: hit for word, hit in hits.items() if hit != f"{WORDS[word]}.html"} == {}


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
