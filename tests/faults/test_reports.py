"""Public reports are read as they were meant, or are text with a warning."""

from tests.each_case import each_case
from tests.faults.judge_reports import judge_call_report, judge_report
from tests.faults.reports import CALL_REPORTS, LATER_TEXT_REPORTS, TEXT_REPORTS, CallReport, Report

WARNED = {
    "signalnine/q27#24": "nothing but closing tags and parameters is left",
}


@each_case("report", [*TEXT_REPORTS, *LATER_TEXT_REPORTS], ids=lambda report: report.source)
def test_a_reported_text_is_read_as_it_was_meant(report: Report) -> None:
    expected = "warned" if report.source in WARNED else "right"
    assert [judge_report(report, seed) for seed in (None, 0, 1)] == [expected] * 3


@each_case("report", CALL_REPORTS, ids=lambda report: report.source)
def test_a_reported_call_is_read_as_it_was_meant(report: CallReport) -> None:
    assert judge_call_report(report) == "right"
