"""The guides from other gateways show what `parley import` prints and writes."""

import os
import re
from pathlib import Path

import pytest
from app.cli import main

from tests.clean_environment import clean_environment

GUIDES = Path(__file__).parents[2] / "docs/guides"


@pytest.mark.parametrize("guide", ["from-litellm.md", "from-claude-code-router.md"])
def test_the_import_of_a_guide_prints_and_writes_what_it_shows(
    guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (GUIDES / guide).read_text("utf-8")
    found = re.search(
        r"^cat >(\S+) <<'END'\n(.*?)^END\n\.venv/bin/parley (import .*?)\n```\n"
        r".*?^```\n(.*?)^```\n.*?^```toml\n(.*?)^```",
        text,
        re.DOTALL | re.MULTILINE,
    )
    assert found is not None
    name, config, command, printed, written = found.groups()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())
    Path(name).write_text(config)
    assert main(command.split()) == 0
    assert capsys.readouterr().out == printed
    assert re.sub(r"\A(#.*\n)+\n", "", Path("parley.toml").read_text()) == written
