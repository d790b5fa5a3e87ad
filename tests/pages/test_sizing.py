"""The page on sizing is computed from the measured figures."""

import re
import string

import pytest

from tests.pages import sizing
from tests.pages.sizing import ROOT, NoFigureError, compute, document, read_figure, show

RESULTS = """
| json | CPU-µs/request | 1 |

## Results

| scenario | figure | nginx | gateway | gateway, hits |
|---|---|---|---|---|
| rss | RSS, MB | – | 177 (112–180) | – |
| burst | CPU-µs/chunk | – | 4.04 (3.8–5.8) | 0.9 |
| saturated | chunks/s | 48,900 | 50,000 (1–2) | – |
| saturated | CPU-µs/chunk | – | 16.9 (16–18) | – |
| paced-64 | CPU-µs/chunk | 41.1 | 100 (89–110) | – |
| paced-256 | CPU-µs/chunk | 30 (29–31) | 60 (55–70) | – |
| json | CPU-µs/request | 28.6 | 600 (500–700) | 300 (1–2) |
| json | requests/s | 1 | 0 **invalid** | – |
"""


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
