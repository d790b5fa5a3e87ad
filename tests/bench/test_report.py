"""What the rig makes of its runs: medians, ratios, verdicts, tables and plots."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import page
import peer_servers
import pytest
import report
from scenarios import BYPASS, CHUNKS, CPU_CHUNK, DEFAULT, DIRECT, HIT, NGINX, SCENARIOS, Target, Variant, body, variants

BURST = next(scenario for scenario in SCENARIOS if scenario.name == "burst")
PACED = next(scenario for scenario in SCENARIOS if scenario.name == "paced-64")


def row(chunks: float, cpu: float = 1.0, *, invalid: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"chunks_s": chunks, "cpu_us_chunk": cpu, "strangers": 0.0, "invalid": list(invalid)}


RUNS = {
    "direct": [row(1000), row(2000), row(3000)],
    "nginx": [row(500), row(500), row(600)],
    "gateway": [row(250), row(400), row(600)],
}


def held_to(*targets: Target) -> list[report.Verdict]:
    return report.judge(replace(BURST, targets=targets), RUNS)


def test_a_verdict_is_the_median_of_the_ratios_of_each_round() -> None:
    (verdict,) = held_to(Target(CHUNKS, "direct", "ratio", "at least", 0.2))
    assert verdict.spread == report.Spread(0.2, 0.2, 0.25)
    assert verdict.met and verdict.valid


def test_a_bound_from_above_is_missed_by_what_is_greater() -> None:
    (verdict,) = held_to(Target(CHUNKS, "nginx", "ratio", "at most", 0.79))
    assert not verdict.met


def test_a_difference_is_taken_in_the_unit_of_the_figure() -> None:
    (verdict,) = held_to(Target(CHUNKS, "nginx", "difference", "at most", -100))
    assert verdict.spread.median == -100 and verdict.met


def test_a_target_beside_what_was_not_measured_is_left_out() -> None:
    assert held_to(Target(CHUNKS, "litellm", "ratio", "at least", 200)) == []


def test_a_round_that_cannot_be_believed_makes_the_verdict_invalid() -> None:
    runs = RUNS | {"nginx": [row(500, invalid=("3 requests failed",)), row(500), row(500)]}
    scenario = replace(BURST, targets=(Target(CHUNKS, "nginx", "ratio", "at least", 0.1),))
    assert [verdict.valid for verdict in report.judge(scenario, runs)] == [False]
    text = report.markdown([scenario], {"burst": runs})
    assert "**invalid**" in text
    assert "- burst, round 1 nginx: 3 requests failed" in text


def test_the_table_shows_medians_and_ranges_and_no_cpu_where_there_is_no_gateway() -> None:
    text = report.markdown([BURST], {"burst": RUNS})
    assert "| burst | chunks/s | 2,000 (1,000–3,000) | 500 (500–600) | 400 (250–600) |" in text
    assert "| burst | CPU-µs/chunk | – | 1 | 1 |" in text
    assert "Not a quiet machine" not in text


def test_a_busy_machine_is_reported() -> None:
    runs = RUNS | {"nginx": [row(500) | {"strangers": 0.5}]}
    assert "up to 50% of the gateway's core" in report.markdown([replace(BURST, targets=())], {"burst": runs})


def test_hits_are_measured_only_where_replies_are_not_paced() -> None:
    everything = (DIRECT, NGINX, BYPASS, DEFAULT, HIT)
    assert variants(BURST, everything) == everything
    assert variants(PACED, everything) == (DIRECT, NGINX, BYPASS, DEFAULT)


def test_misses_differ_from_request_to_request_and_hits_do_not() -> None:
    asked = {variant: body(variant, "mock-3-1-0", True, "burst 1") for variant in (NGINX, BYPASS, DEFAULT, HIT)}
    assert b"####" in asked[DEFAULT]
    assert all(b"#" not in asked[variant] for variant in (NGINX, BYPASS, HIT))
    assert b"burst 1" in asked[HIT]
    assert all(data.index(b"mock-3-1-0") for data in asked.values())


def test_every_target_names_variants_that_can_be_measured() -> None:
    names = {variant.name for variant in (DIRECT, NGINX, BYPASS, DEFAULT, HIT)}
    names |= {peer.name for peer in peer_servers.MEASURED}
    for scenario in SCENARIOS:
        for target in scenario.targets:
            assert {target.ours, target.floor} <= names
            assert target.figure in scenario.figures


def test_other_gateways_have_a_fixed_version_and_names_of_their_own(tmp_path: Path) -> None:
    assert len({peer.name for peer in peer_servers.PEERS}) == len(peer_servers.PEERS)
    for peer in peer_servers.PEERS:
        assert peer.version[0].isdigit()
        assert "9001" in " ".join([*peer.command(peer, tmp_path, 9000, 9001), *peer.headers(9001)]) or any(
            "9001" in file.read_text() for file in tmp_path.rglob("*.*") if file.is_file()
        )


def test_results_replace_what_stands_between_the_marks_of_the_page() -> None:
    text = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"
    assert page.insert(text, "new\n") == f"before\n{page.BEGIN}\n\nnew\n\n{page.END}\nafter\n"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        page.insert("a page", "new")


def test_the_gateway_gets_its_own_form_of_a_request() -> None:
    assert b"stream_options" not in body(DEFAULT, "mock-3-1-0", True)
    assert b"stream_options" in body(Variant("litellm", "litellm"), "mock-3-1-0", True)
    assert CPU_CHUNK.label == "CPU-µs/chunk"
