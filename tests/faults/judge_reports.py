"""How a public report is read, and whether that is what it was meant to be."""

from typing import Any

from app.chat.events import Event, Finish, ToolCallDelta
from app.chat.messages import ChatRequest, Tool
from app.profiles import Profile
from app.steps.pipeline import reply_stages

from tests.faults.replies import Outcome, judge
from tests.faults.reports import CallReport, Report
from tests.steps.stage_runner import run, texts


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
    events: list[Event] = [ToolCallDelta(0, "", "c1", report.name)]
    events += [ToolCallDelta(0, report.arguments[at : at + 4]) for at in range(0, len(report.arguments), 4)]
    reply = run(_stages(), [[event] for event in events], Finish("tool_calls"))
    name = next(tool.name for tool in REQUEST.tools if report.name.startswith(tool.name))
    return judge(reply, [(name, report.meant)], [])
