"""Summaries that replace a conversation: half of one, or a call, would replace it for good.

Codex ends the session after a finished Response that has no item `compaction` ("expected exactly one compaction output
item, got 0"), and sends the request again after a failed one (seen with 0.171.0).
"""

from typing_extensions import override

from app.chat.events import Event, Failed, Fault, Finish, Passed, TextDelta, ToolCallDelta
from app.formats.responses.response import UNFINISHED


class FinishedSummary:
    """A stage after which a reply fails that ends as if it were done and is no summary: it may be tried again. One that
    ends unfinished says so itself."""

    def __init__(self) -> None:
        self._has_text = False
        self._passed = False
        self._cause = ""

    def feed(self, events: list[Event]) -> list[Event]:
        for event in events:
            self._look_at(event)
        end = events[-1] if events else None
        if type(end) is not Finish or self._passed:
            return events
        cause = self._find_cause(end.reason)
        if not cause:
            return events
        message = f"the model made no summary of the conversation: {cause}"
        return [*events[:-1], Failed(Fault("upstream_protocol", message, True, usage=end.usage))]

    def _find_cause(self, reason: str) -> str:
        """Return why a reply that ended for this reason is no summary; empty if it is one."""
        if reason in UNFINISHED:
            return ""
        return self._cause or ("" if self._has_text else "it is empty")

    def _look_at(self, event: Event) -> None:
        if type(event) is TextDelta and event.refusal:
            self._cause = "it is a refusal"
        elif type(event) is TextDelta:
            self._has_text = self._has_text or bool(event.text.strip())
        elif type(event) is ToolCallDelta:
            self._cause = "it is a call of a tool"
        elif type(event) is Passed:
            self._passed = True


class WholeSummary(FinishedSummary):
    """Lets only a whole summary pass."""

    @override
    def _find_cause(self, reason: str) -> str:
        return super()._find_cause(reason) or ("" if reason == "stop" else f"it ended with {reason!r}")
