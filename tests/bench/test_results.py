"""The file of results, and what the page on performance and the README say of it."""

from pathlib import Path

import agent_mix
import page
import peer_servers
import pytest
import results
from agent_turn import FIRST_CPU, GROUP, LAST_CPU
from results import Measured, ResultRow, Run

from tests.each_case import each_case

OLD, NEW = Run("2026-01-01", "aaa", 3, "a machine"), Run("2026-02-02", "bbb", 1, "another")


def row(server: str, figure: str = "chunks/s", *values: float, scenario: str = "burst", **more: object) -> ResultRow:
    return ResultRow(scenario, server, "", "", figure, values or (1.0, 2.0, 9.0), **more)  # type: ignore[arg-type]  # as given


FIRST = Measured((), ()).add(OLD, [row("gateway"), row("nginx"), row("nginx", "CPU-µs/chunk", scenario="saturated")])


def test_a_run_replaces_what_it_measured_and_the_rest_stays_with_its_run() -> None:
    measured = FIRST.add(NEW, [row("nginx", "chunks/s", 5.0)])
    assert measured.runs == (OLD, NEW)
    found = {(each.scenario, each.server): (each.values, measured.runs[each.run]) for each in measured.rows}
    assert found["burst", "nginx"] == ((5.0,), NEW)
    assert found["burst", "gateway"] == ((1.0, 2.0, 9.0), OLD)
    assert found["saturated", "nginx"] == ((1.0, 2.0, 9.0), OLD)


def test_a_run_of_which_nothing_is_left_is_forgotten() -> None:
    measured = Measured((), ()).add(OLD, [row("nginx")]).add(NEW, [row("nginx")])
    assert measured.runs == (NEW,)
    assert [each.run for each in measured.rows] == [0]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    results.save(FIRST, tmp_path / "results.json")
    assert results.load(tmp_path / "results.json") == FIRST


def test_a_figure_that_is_not_valid_is_not_shown() -> None:
    measured = FIRST.add(NEW, [row("nginx", "chunks/s", 5.0, valid=False)])
    assert measured.spread("burst", "nginx", "chunks/s") is None
    assert "| nginx | – | – | – | – | 2<sup>1</sup> |" in page.results_text(measured)


def test_the_table_has_medians_their_runs_and_a_number_for_each_endpoint() -> None:
    turns = [
        ResultRow(GROUP, "litellm", "1.2", path, figure, (7.0,))
        for path in ("/v1/messages", "/v1/chat/completions")
        for figure in (FIRST_CPU, LAST_CPU)
    ]
    text = page.results_text(FIRST.add(NEW, turns))
    assert "| **Parley** | – | – | 2<sup>1</sup> |" in text
    assert "| LiteLLM 1.2 | 7 · – · 7<sup>2</sup> | 7 · – · 7<sup>2</sup> | – |" in text
    assert "\n1. 2026-01-01, commit aaa, 3 rounds, a machine\n2. 2026-02-02, commit bbb, one round, another" in text


def test_what_was_remembered_of_the_sessions_of_agents_is_a_table_of_its_own() -> None:
    rows = [
        ResultRow(page.AGENTS, "Codex", "0.1", "/v1/responses", figure, (value,))
        for figure, value in ((page.AGENT_REQUESTS, 20.0), (page.AGENT_REMEMBERED, 93.25))
    ]
    text = page.results_text(FIRST.add(NEW, rows))
    assert "| Codex 0.1, `/v1/responses` | 20<sup>2</sup> | – | 93.2<sup>2</sup> | – |" in text


def test_the_page_and_the_readme_say_what_was_measured() -> None:
    measured = results.load()
    text = page.PAGE.read_text("utf-8")
    assert text == page.insert(text, page.results_text(measured)), "stale: run bench/run --write"
    readme = page.README.read_text("utf-8")
    assert readme == page.update_readme(readme, measured), "stale: run bench/run --write"


def test_a_readme_without_its_row_or_without_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="no row"):
        page.update_readme("text", results.load())
    with pytest.raises(ValueError, match="for gateway"):
        page.update_readme(page.README_ROW, FIRST)


def test_sessions_at_a_time_are_a_table_of_their_own() -> None:
    figures = dict.fromkeys(agent_mix.FIGURES, (7.0, 9.0, 8.0))
    rows = [
        ResultRow(page.MIX, server, version, "/v1/messages", figure, values)
        for server, version in (("direct", ""), ("litellm", "1.2"))
        for figure, values in figures.items()
    ]
    text = page.results_text(FIRST.add(NEW, rows[:-1]))
    cell = "8 (7–9)<sup>2</sup>"
    assert f"| no gateway, `/v1/messages` | {cell} | {cell} | {cell} |\n" in text
    assert f"| LiteLLM 1.2, `/v1/messages` | {cell} | {cell} | – |\n" in text
    assert "sessions at a time" not in page.results_text(FIRST)


@each_case(
    ("said", "version"),
    [("3.1.1\n", "3.1.1"), ("litellm (1.110.2)\nAvailable versions: 1.110.2, 1.110.1\n", "1.110.2")],
)
def test_the_newest_version_is_read_from_what_npm_and_pip_print(said: str, version: str) -> None:
    assert peer_servers.find_version(said) == version
