"""The page on sizing is computed from the measured figures."""

import re
import string

import pytest
from agent_bodies import WRITERS, make_conversation
from app.formats.request_memory import RequestMemory

from tests.pages import sizing
from tests.pages.sizing import (
    AGENT_PATH,
    ROOT,
    SESSION_MEGABYTES,
    NoFigureError,
    compute,
    document,
    read_figure,
    show,
)

AFTER = "memory after 200 sessions, MB"
FIGURES: list[tuple[str, str, str, str, list[float]]] = [
    ("rss", "gateway", "", "RSS, MB", [112, 177, 180]),
    ("burst", "gateway", "", "CPU-µs/chunk", [4.04]),
    ("saturated", "gateway", "", "chunks/s", [50_000]),
    ("saturated", "gateway", "", "CPU-µs/chunk", [16.9]),
    ("paced-64", "gateway", "", "CPU-µs/chunk", [100]),
    ("paced-256", "gateway", "", "CPU-µs/chunk", [55, 60, 70]),
    ("paced-256", "nginx", "", "CPU-µs/chunk", [30]),
    ("json", "gateway", "", "CPU-µs/request", [600]),
    ("json", "gateway, hits", "", "CPU-µs/request", [300]),
    ("agent-turn", "gateway", AGENT_PATH, "first, 100 rounds, 60 functions, CPU ms", [12]),
    ("agent-turn", "gateway", AGENT_PATH, "last of 100 rounds, CPU ms", [2]),
    ("agent-turn", "gateway", AGENT_PATH, "memory at the start, MB", [80]),
    ("agent-turn", "gateway", AGENT_PATH, AFTER, [140]),
    ("agent-turn", "gateway, remembering nothing", AGENT_PATH, AFTER, [90]),
]
NAMES = ("scenario", "server", "endpoint", "figure", "values")
RESULTS = [{"valid": True, **dict(zip(NAMES, row, strict=True))} for row in FIGURES]
RESULTS.append({**RESULTS[0], "scenario": "json", "figure": "requests/s", "valid": False})


def test_the_page_is_what_the_figures_are() -> None:
    page = ROOT / "docs/operate/sizing.md"
    assert page.read_text("utf-8") == document(), "stale: run scripts/sizing"


def test_every_number_that_is_computed_is_on_the_page() -> None:
    used = {name for _, name, _, _ in string.Formatter().parse(sizing.TEMPLATE.read_text("utf-8")) if name}
    assert used == compute(RESULTS).keys()


def test_the_numbers_follow_from_the_figures() -> None:
    numbers = compute(RESULTS)
    assert (numbers["chunks"], numbers["streams"]) == ("10,000", "200")
    assert (numbers["misses"], numbers["hits"], numbers["reply_us"]) == ("1,000", "2,000", "30,600")
    assert (numbers["stream_kb"], numbers["process_mb"], numbers["share_of_300"]) == ("100", "97", "30")
    assert (numbers["cores"], numbers["processes"], numbers["machines"]) == ("510", "851", "14")
    assert (numbers["redis_scripts"], numbers["redis_streams"], numbers["redis_servers"]) == ("3,870", "700", "246")
    assert (numbers["turns_next"], numbers["agents"], numbers["agents_first"]) == ("300", "3,000", "500")
    assert (numbers["sessions"], numbers["agents_mb"], numbers["memory_without"]) == ("16", "12,300", "90")
    assert (numbers["small_cores"], numbers["nginx_share"], numbers["cells"]) == ("0.51", "50", "36")


@pytest.mark.parametrize(
    ("number", "text"),
    [(55.94, "55.9"), (4.036, "4.04"), (951_686, "952,000"), (100, "100"), (5.5, "5.5"), (0.047, "0.047")],
)
def test_a_number_has_three_digits_that_count(number: float, text: str) -> None:
    assert show(number) == text


@pytest.mark.parametrize(
    ("scenario", "figure", "variant"),
    [
        ("json", "requests/s", "gateway"),  # is not valid
        ("ttft", "first token p50, ms", "gateway"),
        ("json", "CPU-µs/request", "portkey"),
    ],
)
def test_a_figure_that_was_not_measured_is_named(scenario: str, figure: str, variant: str) -> None:
    with pytest.raises(NoFigureError, match=re.escape(f"no {figure} of {scenario} for {variant}")):
        read_figure(RESULTS, scenario, figure, variant)


def test_as_many_sessions_are_remembered_as_the_page_says() -> None:
    bodies = [WRITERS[AGENT_PATH](make_conversation(100, 60, seed), "m") for seed in range(8)]

    def count_remembered(megabytes: float) -> int:
        counted: list[int] = []
        memory = RequestMemory(int(megabytes * 1e6), lambda remembered, _: counted.append(remembered))
        for raw in [*bodies, *bodies]:
            opened = memory.open("a")
            assert opened is not None
            opened.read_object(raw)
            opened.remember()
        return sum(size > 400_000 for size in counted)

    assert count_remembered(1.02 * len(bodies) * SESSION_MEGABYTES) == len(bodies)
    assert count_remembered(0.9 * len(bodies) * SESSION_MEGABYTES) == 0
