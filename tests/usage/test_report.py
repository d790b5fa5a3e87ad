"""Queries of the totals, and how the result is shown."""

import csv
import io
from typing import Any

import pytest
from app.chat.token_usage import CallUsage, TokenUsage
from app.errors import InvalidInput
from app.usage.report import format_table, parse_query, report_usage, write_csv
from app.usage.totals import RowKey, Totals, UsageQuery, UsageRow

from tests.each_case import each_case

ROWS = [
    UsageRow(RowKey("2026-11-21", "", "m"), Totals(requests=1200, input_tokens=5, cost=0.1)),
    UsageRow(RowKey("2026-11-22", "team", "m"), Totals(requests=1, errors=1, cost=0.2)),
]


def test_without_parameters_the_last_thirty_days_are_shown_in_full() -> None:
    assert parse_query("2026-11-22") == UsageQuery("2026-10-24", "2026-11-22", ("day", "key", "model"))
    assert parse_query("2026-11-22", last="2026-03-01").first_day == "2026-01-31"
    query = parse_query("2026-11-22", first="2026-11-01", group_by="model, day,model", key="k", model="m")
    assert query == UsageQuery("2026-11-01", "2026-11-22", ("model", "day"), "k", "m")


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"first": "2026-02-30"}, ["from"]),
        ({"first": "20261101", "last": "x"}, ["to", "from"]),
        ({"first": "2026-11-02", "last": "2026-11-01"}, ["from"]),
        ({"group_by": "modle"}, ["group_by"]),
        ({"group_by": "", "last": "2026-13-01"}, ["to", "group_by"]),
    ],
)
def test_every_mistake_in_a_query_is_named(given: dict[str, Any], wrong: list[str]) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_query("2026-11-22", **given)
    assert [violation.path for violation in raised.value.violations] == wrong


def test_a_report_has_only_the_names_that_it_is_grouped_by_and_a_total() -> None:
    report = report_usage(UsageQuery("2026-11-01", "2026-11-22", ("model", "day")), ROWS)
    assert (report["from"], report["to"], report["group_by"]) == ("2026-11-01", "2026-11-22", ["day", "model"])
    assert [set(entry) & {"day", "key", "model"} for entry in report["data"]] == [{"day", "model"}] * 2
    assert (report["total"]["requests"], report["total"]["cost"]) == (1201, 0.3)


def test_csv_has_the_names_of_its_columns_and_a_line_for_each_entry() -> None:
    lines = write_csv(UsageQuery("2026-11-01", "2026-11-22", ("day", "team")), ROWS).split("\r\n")
    assert lines[0] == "day,team,requests,errors,cache_hits,estimated_requests,input_tokens,cached_input_tokens," + (
        "output_tokens,reasoning_tokens,saved_tokens,cost,searches,fetches"
    )
    assert lines[1:] == ["2026-11-21,,1200,0,0,0,5,0,0,0,0,0.1,0,0", "2026-11-22,,1,1,0,0,0,0,0,0,0,0.2,0,0", ""]


@each_case(
    ("name", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("＝1", "'＝1"),
        ("\t=1", "'\t'=1"),
        ("\r1", "'\r1"),
        ("\n-1", "'\n'-1"),
        ("a;=1", "a;'=1"),
        ("a,@b", "a,'@b"),
        ("gpt-4o+x=@y", "gpt-4o+x=@y"),
        ('say "=1"', 'say "=1"'),
    ],
)
def test_a_name_that_a_spreadsheet_program_could_run_as_a_formula_is_text(name: str, cell: str) -> None:
    text = write_csv(UsageQuery("2026-11-01", "2026-11-22", ("model",)), [UsageRow(RowKey("", "", name), Totals())])
    ((written, *_),) = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert written == cell


def test_a_table_has_a_row_for_each_entry_and_the_total() -> None:
    table = format_table(UsageQuery("2026-11-01", "2026-11-22"), ROWS).splitlines()
    assert [line.split() for line in table] == [
        [
            "day",
            "key",
            "model",
            "requests",
            "errors",
            "hits",
            "input",
            "cached",
            "output",
            "reasoning",
            "searches",
            "pages",
            "cost",
        ],
        ["2026-11-21", "-", "m", "1,200", "0", "0", "5", "0", "0", "0", "0", "0", "0.1000"],
        ["2026-11-22", "team", "m", "1", "1", "0", "0", "0", "0", "0", "0", "0", "0.2000"],
        ["total", "1,201", "1", "0", "5", "0", "0", "0", "0", "0", "0.3000"],
    ]
    assert len({len(line) for line in table}) == 1
    assert format_table(UsageQuery("2026-11-01", "2026-11-22", ("key",)), []).splitlines()[1].split()[:2] == [
        "total",
        "0",
    ]


def test_the_numbers_of_a_call_are_without_its_request() -> None:
    call = CallUsage(TokenUsage(9, 4, 1, 5, 3), 0.25, estimated=True)
    assert Totals.from_call(call) == Totals(
        estimated_requests=1, input_tokens=9, cached_input_tokens=4, output_tokens=5, reasoning_tokens=3, cost=0.25
    )
    assert Totals.from_call(CallUsage(TokenUsage(9))).cost == 0.0
