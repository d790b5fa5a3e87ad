"""The script that writes docs/evidence/compatibility.md runs. Other tests check what it counts."""

import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.messages.replies import REPLY, start, stop, text, write_stream

SCRIPT = Path(__file__).parents[2] / "scripts/compatibility"


def load_script() -> Any:
    spec = spec_from_loader("compatibility", SourceFileLoader("compatibility", str(SCRIPT)))
    assert spec and spec.loader
    script = module_from_spec(spec)
    sys.modules["compatibility"] = script  # where its dataclasses look for their types
    spec.loader.exec_module(script)
    return script


@pytest.mark.anyio
async def test_the_table_of_the_corpus_is_written_from_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZ", "")
    script = load_script()
    some = script.CASES[:3]
    monkeypatch.setattr(script, "CASES", some)
    monkeypatch.setattr(script, "load_cases", lambda: some)
    rows = await script.corpus()
    assert sum(cases for _, cases, _, _ in rows) == sum(passed for _, _, passed, _ in rows) == len(some)
    losses = await script.corpus_losses()
    assert [one.replies for one in losses.values()] == [len(some)] * len(script.FORMATS)


@pytest.mark.interpreted  # a compiled object cannot be copied
def test_the_table_of_other_apis_counts_streams_whole_replies_and_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FUZZ", "")
    script = load_script()
    recorded = [
        ("a.sse", 200, write_stream([start(), *text(0, "a"), *stop()])),
        ("b.json", 200, json.dumps(REPLY).encode()),
        ("c.json", 401, b'{"type": "error", "error": {"type": "authentication_error", "message": "no"}}'),
    ]
    rows = [
        {"file": name, "status": status, "stream": name.endswith("sse"), "provider": "p"}
        for name, status, _ in recorded
    ]
    (tmp_path / "INDEX.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, _, body in recorded:
        (tmp_path / name).write_bytes(body)
    monkeypatch.setattr(script, "MESSAGES", tmp_path)
    monkeypatch.setattr(script, "RESPONSES", tmp_path / "none")
    (row,) = script.other_apis().values()
    assert row.cells() == (3, 1, "14", 0, 0, 0)
    said = " ".join(script.write_ends(row).split())
    assert (
        "3 of 3.** 1 have usage." in said
        and "Finish reasons: stop 2." in said
        and said.endswith("gets: authentication 1.")
    )
