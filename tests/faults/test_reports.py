"""Public reports are read as they were meant, or are text with a warning."""

from typing import Any

from app.chat.events import Finish, ToolCallDelta
from app.chat.messages import ChatRequest, Tool
from app.profiles import Profile
from app.steps.pipeline import reply_stages

from tests.each_case import each_case
from tests.faults.replies import Outcome, judge
from tests.faults.reports import CALL_REPORTS, TEXT_REPORTS, CallReport, Report
from tests.steps.stage_runner import run, texts

WARNED = {
    "signalnine/q27#24": "nothing but closing tags and parameters is left",
    "NousResearch/hermes-agent#48412": "the call is read; Gemma's tags of reasoning are `think_tags` of a profile",
}


def _function(name: str, *parameters: str) -> Tool:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    return Tool(name, {"name": name, "parameters": {"type": "object", "properties": properties}})


REQUEST = ChatRequest("m", (), (_function("Read", "path"), _function("Bash", "command"), _function("List")))


def _stages() -> list[Any]:
    return reply_stages(REQUEST, Profile(), "chat-1")


def judge_report(report: Report, seed: int | None = None) -> Outcome:
    reply = run(_stages(), texts(report.text, seed))
    return judge(reply, report.calls, [*([report.reasoning] if report.reasoning else []), *report.prose])


def judge_call_report(report: CallReport) -> Outcome:
    events = [ToolCallDelta(0, "", "c1", report.name)]
    events += [ToolCallDelta(0, report.arguments[at : at + 4]) for at in range(0, len(report.arguments), 4)]
    reply = run(_stages(), [[event] for event in events], Finish("tool_calls"))
    name = next(tool.name for tool in REQUEST.tools if report.name.startswith(tool.name))
    return judge(reply, [(name, report.meant)], [])


@each_case("report", TEXT_REPORTS, ids=lambda report: report.source)
def test_a_reported_text_is_read_as_it_was_meant(report: Report) -> None:
    expected = "warned" if report.source in WARNED else "right"
    assert [judge_report(report, seed) for seed in (None, 0, 1)] == [expected] * 3


@each_case("report", CALL_REPORTS, ids=lambda report: report.source)
def test_a_reported_call_is_read_as_it_was_meant(report: CallReport) -> None:
    assert judge_call_report(report) == "right"
