"""The script that writes docs/evidence/compatibility.md runs. Other tests check what it counts."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/compatibility"


@pytest.mark.anyio
async def test_the_table_of_the_corpus_is_written_from_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZ", "")
    spec = spec_from_loader("compatibility", SourceFileLoader("compatibility", str(SCRIPT)))
    assert spec and spec.loader
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    some = script.CASES[:3]
    monkeypatch.setattr(script, "CASES", some)
    monkeypatch.setattr(script, "load_cases", lambda: some)
    rows = await script.corpus()
    assert sum(cases for _, cases, _, _ in rows) == sum(passed for _, _, passed, _ in rows) == len(some)
    losses = await script.corpus_losses()
    assert [one.replies for one in losses.values()] == [len(some)] * len(script.FORMATS)
