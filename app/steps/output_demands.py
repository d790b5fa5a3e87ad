"""What a reply that is held back must obey, and how the model is asked for it again: JSON, or a call of a function.

Libraries that want an answer as a class often demand a call of a function with the class as its parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import Event, FinishReason, TextDelta, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Text
from app.openai_messages.tool_schemas import complete_function
from app.steps.demanded_calls import find_demanded_function
from app.steps.json_schema import Stop
from app.steps.output_check import ANY_JSON, OutputCheck, check_output, find_output_schema, name_demand

_ASK_AGAIN = (
    "This reply is not valid against the JSON schema:\n{problems}\n"
    "Reply again with JSON that is valid against this schema, and nothing else:\n{schema}"
)
_ASK_FOR_JSON = "This reply is not JSON:\n{problems}\nReply again with the JSON, and nothing else."
_CALL_AGAIN = (
    "The function {name} must be called, with arguments that are valid against its parameters. You replied:\n{reply}\n"
    "It is not valid:\n{problems}\nCall the function {name} again."
)


class JsonDemand(Struct, frozen=True):
    """The text must be valid against a schema."""

    schema: Mapping[str, Any] | bool
    words: str
    """What the reply must obey, for a sentence about it."""
    ends: tuple[FinishReason, ...] = ("stop",)
    """How a reply ends that must obey."""

    def exempts(self, event: Event) -> bool:
        """Whether a reply with this event need not obey: it has a call, or is a refusal."""
        return isinstance(event, ToolCallDelta) or (isinstance(event, TextDelta) and event.refusal)

    def check(self, events: Sequence[Event], max_work: int, stop: Stop) -> OutputCheck:
        text = "".join([event.text for event in events if isinstance(event, TextDelta)])
        return check_output(text, self.schema, max_work, stop)

    def repair(self, events: Sequence[Event], check: OutputCheck) -> list[Event]:
        """Return the events with the mended text instead of theirs, where theirs ended."""
        last = max(place for place, event in enumerate(events) if isinstance(event, TextDelta))
        kept = [event for place, event in enumerate(events) if place == last or not isinstance(event, TextDelta)]
        return [TextDelta(check.text) if isinstance(event, TextDelta) else event for event in kept]

    def ask_again(self, conversation: ChatRequest, check: OutputCheck) -> ChatRequest:
        """Return the conversation with the invalid reply, and what is wrong with it."""
        asked = _ASK_FOR_JSON
        if self.schema is not ANY_JSON:  # the server may have ignored it, and the model never read it
            schema = msgspec.json.encode(self.schema).decode()
            asked = _ASK_AGAIN.replace("{schema}", schema)
        reply = Message("assistant", (Text(check.text),) if check.text else ())
        return _add_messages(conversation, reply, _make_question(asked.replace("{problems}", _list_problems(check))))


class CallDemand(Struct, frozen=True):
    """The function must be called, with arguments that are valid against its parameters."""

    name: str
    schema: Mapping[str, Any]
    ends: tuple[FinishReason, ...] = ("stop", "tool_calls")

    @property
    def words(self) -> str:
        return f"the demanded call of {self.name!r}"

    def exempts(self, event: Event) -> bool:
        return isinstance(event, TextDelta) and event.refusal

    def check(self, events: Sequence[Event], max_work: int, stop: Stop) -> OutputCheck:
        """Check the first call of the function. Its arguments are the text of the check."""
        index = self._find_index(events)
        if index is None:
            said = "".join([event.text for event in events if isinstance(event, TextDelta)])
            return OutputCheck("invalid", said, (f"$: there is no call of {self.name!r}",))
        calls = [event for event in events if isinstance(event, ToolCallDelta) and event.index == index]
        return check_output("".join([call.arguments for call in calls]) or "{}", self.schema, max_work, stop)

    def _find_index(self, events: Sequence[Event]) -> int | None:
        calls = (event for event in events if isinstance(event, ToolCallDelta) and event.name == self.name)
        return next((call.index for call in calls), None)

    def repair(self, events: Sequence[Event], check: OutputCheck) -> list[Event]:
        index, out = self._find_index(events), []
        for event in events:
            if not isinstance(event, ToolCallDelta) or event.index != index:
                out.append(event)
            elif event.name:  # only the first delta of a call has its name
                out.append(replace(event, arguments=check.text))
        return out

    def ask_again(self, conversation: ChatRequest, check: OutputCheck) -> ChatRequest:
        """Return the conversation with what is wrong. The call is not in it: a call would need a result, and some
        servers the reasoning before it."""
        text = _CALL_AGAIN.replace("{name}", self.name).replace("{problems}", _list_problems(check))
        return _add_messages(conversation, _make_question(text.replace("{reply}", check.text)))


Demand: TypeAlias = JsonDemand | CallDemand


def find_json_demand(request: ChatRequest) -> JsonDemand | None:
    schema = find_output_schema(request)
    if schema is None:
        return None
    return JsonDemand(schema, name_demand(schema, request.paths.param("response_format")))


def find_demand(request: ChatRequest) -> Demand | None:
    """Return what the reply must obey; None if the request demands neither the call of one function nor JSON. A reply
    with a call has no text that must be JSON."""
    return _find_call_demand(request) or find_json_demand(request)


def _find_call_demand(request: ChatRequest) -> CallDemand | None:
    name = find_demanded_function(request) if request.tools else None
    if name is None or (not name and len(request.tools) != 1):
        return None
    tool = next((tool for tool in request.tools if name in ("", tool.name)), None)
    return None if tool is None else CallDemand(tool.name, complete_function(tool.schema)["parameters"])


def _list_problems(check: OutputCheck) -> str:
    return "\n".join([f"- {problem}" for problem in check.problems])


def _make_question(text: str) -> Message:
    return Message("user", (Text(text),))


def _add_messages(conversation: ChatRequest, *messages: Message) -> ChatRequest:
    return replace(conversation, messages=(*conversation.messages, *messages), continue_last=False)
