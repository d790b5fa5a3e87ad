"""Every configuration that a page shows is accepted."""

import re
from pathlib import Path

import pytest
from app.config.load import load
from app.config.reload import LIVE_SETTINGS
from app.config.settings import Settings

from tests.certificates import certificate

ROOT = Path(__file__).parents[2]
SHOWN = [
    (f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}", found[1])
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for text in [page.read_text("utf-8")]
    for found in re.finditer(r"^```toml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
]


@pytest.mark.parametrize(("place", "text"), SHOWN, ids=[place for place, _ in SHOWN])
def test_a_configuration_that_a_page_shows_is_accepted(place: str, text: str, tmp_path: Path) -> None:
    if "/etc/parley/" in text:  # certificates
        certificate(tmp_path, "DNS:localhost")
        text = re.sub(r"/etc/parley/[\w-]+\.pem", str(tmp_path / "server.pem"), text)
        text = re.sub(r"/etc/parley/[\w-]+\.key", str(tmp_path / "key.pem"), text)
    if "rules_file" in text:
        pytest.importorskip("re2", reason="google-re2, of the extra guards, is not installed")
        (tmp_path / "rules.toml").write_text("[[rules]]\nid = 'a'\nregex = 'a'", "utf-8")
        text = text.replace('"gitleaks.toml"', f'"{tmp_path}/rules.toml"')
    file = tmp_path / "parley.toml"
    file.write_text(text, "utf-8")
    for program in re.findall(r'api_key_command = \["([\w-]+)"', text):
        (tmp_path / program).touch(0o755)
    load({name: "secret" for name in re.findall(r"\$\{(\w+)\}", text)} | {"PATH": str(tmp_path)}, path=file)


def test_the_page_names_what_needs_a_restart() -> None:
    page = (ROOT / "docs/operate/configuration.md").read_text("utf-8")
    sentence = page.partition("- These need a restart: ")[2].partition(". ")[0]
    tables, _, of_server = sentence.partition("what `[server]` has but")
    live = {name.removeprefix("server.") for name in LIVE_SETTINGS if name.startswith("server.")}
    assert set(re.findall(r"`\[?(\w+)\]?`", tables)) == Settings.model_fields.keys() - LIVE_SETTINGS - {"server"}
    assert set(re.findall(r"`(\w+)`", of_server)) == live
