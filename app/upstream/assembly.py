"""Chunks of a model server's reply into events: one machine for streams and whole replies.

The rules (1-11) are those that `docs/assembly.md` lists with the servers that made each of them necessary. Thinking in
tags and white space between messages are the business of later stages.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from app.chat.events import Event, Extra, Failed, Fault, Finish, FinishReason, ReasoningDelta, TextDelta
from app.upstream import faults
from app.upstream.calls import CallTable
from app.upstream.chunks import Call, Choice, Chunk, Delta, Function, paired
from app.upstream.sse import Done, ErrorText, Garbage

REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "max_length"), "length"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use", "tool_call"), "tool_calls"),
    **dict.fromkeys(
        (
            "content_filter",
            "sensitive",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "image_safety",
            "error_toxic",
            "content_filtered",
            "guardrail_intervened",
            "refusal",
        ),
        "content_filter",
    ),
}
"""Finish reasons by the servers' words, in lower case; any other word means stop."""

FAILURES: dict[str, str] = {
    "error": "server_error",
    "network_error": "server_error",
    "insufficient_system_resource": "overloaded",
    "malformed_function_call": "tool_use_failed",
    "abort": "upstream_incomplete",
    "aborted": "upstream_incomplete",
    "cancelled": "upstream_incomplete",
}
"""Finish reasons that say that the reply is not whole, and the kind of fault each is."""


Place: TypeAlias = tuple[str | int | None, int]
"""Where in a delta a text stands: a field and which of its like, or a call's index and its place in the list."""


class Assembler:
    """Feeds on what the reader found in one read; ends with exactly one `Finish` or `Failed`."""

    def __init__(self, reply_id: str) -> None:
        self._calls = CallTable(reply_id)
        self._usage: dict[str, Any] | None = None
        self._reason: str | None = None
        self._foreign: Chunk | None = None
        self._halves: dict[Place, str] = {}
        self._told: set[str] = set()
        """Of reasoning, content, refusal and calls, those that deltas brought."""
        self._whole = False
        """A complete message came: it needs no finish reason."""
        self.started = False
        """Some chunk of a reply came, even an empty one."""
        self.ended = False

    @property
    def finishing(self) -> bool:
        """A finish reason came: only usage can follow."""
        return self._reason is not None

    def feed(self, items: list[Chunk | None | Done | ErrorText | Garbage]) -> list[Event]:
        out: list[Event] = []
        for item in items:
            if self.ended:
                break
            if type(item) is Chunk:
                self._chunk(item, out)
            elif type(item) is Done and self._foreign is not None and not self.started:
                self._fail(faults.from_object(msgspec.to_builtins(self._foreign), None), out)
            elif type(item) is Done or item is not None and self._reason:
                self._finish(out)
            elif type(item) is ErrorText:
                self._fail(faults.from_body(item.data, None), out)
            elif type(item) is Garbage:
                self._fail(faults.protocol(item.data), out)
        return out

    def _chunk(self, chunk: Chunk, out: list[Event]) -> None:
        if chunk.usage:
            self._usage = chunk.usage
        if chunk.error or chunk.object == "error" or _refused(chunk.base_resp):
            if self._reason:
                self._finish(out)
                return
            self._fail(faults.from_object(msgspec.to_builtins(chunk), None), out)
            return
        choices = chunk.choices
        if not choices:
            self._foreign_object(chunk)
            return
        self.started = True
        choice: Choice | None = choices[0]
        if choices[0].index or len(choices) > 1:
            choice = next((item for item in choices if not item.index), None)
        if choice is None:
            return
        if chunk.ragged or self._halves:
            self._mend(choice.delta, self._joined)
            self._mend(choice.message, _alone)
        if choice.delta is not None:
            self._delta(choice.delta, out)
        if choice.message is not None and (choice.delta is None or choice.finish_reason is not None):
            self._message(choice.message, out)
        if chunk.x_groq or choice.usage:
            self._other_usage(chunk, choice)
        if choice.finish_reason or choice.error:
            self._finish_reason(choice, out)

    def _delta(self, delta: Delta, out: list[Event], *, whole: bool = False) -> None:
        reasoning = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        details = delta.reasoning_details
        if details and not reasoning:
            reasoning = _detailed(details)
        if reasoning:
            self._calls.settle(reasoning, out)
            out.append(ReasoningDelta(reasoning))
            self._told.add("reasoning")
        if details and (opaque := _opaque(details)):
            out.append(Extra({"reasoning_details": opaque}))
        if delta.content:
            self._calls.settle(delta.content, out)
            out.append(TextDelta(delta.content))
            self._told.add("content")
        if delta.refusal:
            self._calls.settle(delta.refusal, out)
            out.append(TextDelta(delta.refusal, refusal=True))
            self._told.add("refusal")
        if delta.tool_calls or delta.function_call is not None:
            self._told.add("calls")
        if delta.tool_calls:
            self._calls.feed(delta.tool_calls, out, whole=whole)
        elif delta.function_call is not None:
            self._calls.feed([Call(index=0, function=delta.function_call)], out)

    def _message(self, message: Delta, out: list[Event]) -> None:
        """A whole message: all there is, or (Perplexity) once more what the deltas said, which is not told again."""
        told = frozenset(self._told)
        if "reasoning" in told:
            message.reasoning_content = message.reasoning = message.reasoning_text = message.reasoning_details = None
        if "content" in told:
            message.content = None
        if "refusal" in told:
            message.refusal = None
        if "calls" in told:
            message.tool_calls = message.function_call = None
        self._delta(message, out, whole=True)
        self._whole = self._whole or not told

    def _foreign_object(self, chunk: Chunk) -> None:
        if chunk.x_groq:
            self._other_usage(chunk, Choice())
        if not self.started and (chunk.message or chunk.detail):
            self._foreign = chunk

    def _other_usage(self, chunk: Chunk, choice: Choice) -> None:
        nested = chunk.x_groq.get("usage") if chunk.x_groq else None
        self._usage = chunk.usage or choice.usage or (nested if isinstance(nested, dict) else None) or self._usage

    def _finish_reason(self, choice: Choice, out: list[Event]) -> None:
        reason = choice.finish_reason
        kind = FAILURES.get((reason or "").lower())
        if choice.error:
            self._fail(faults.from_object({"error": choice.error}, None), out)
        elif kind is not None and self._reason is None:
            self._fail(faults.made(kind, f"the model server ended the reply with {reason!r}"), out)
        else:
            self._reason = self._reason or reason

    def _mend(self, delta: Delta | None, joined: Callable[[Place, str], str]) -> None:
        """Surrogate pairs whose halves came in two chunks; none may remain in a text."""
        if delta is None:
            return
        for field in ("content", "reasoning_content", "reasoning", "reasoning_text", "refusal"):
            if text := getattr(delta, field):
                setattr(delta, field, joined((field, 0), text))
        for item in delta.reasoning_details or ():
            for key in ("text", "summary"):
                if isinstance(item, dict) and isinstance(text := item.get(key), str) and text:
                    item[key] = joined(("reasoning_content", 1), text)
        for place, call in enumerate(delta.tool_calls or ()):
            if call.function is not None and call.function.arguments:
                call.function.arguments = joined((call.index, place), call.function.arguments)
        if delta.function_call is not None and delta.function_call.arguments:
            delta.function_call.arguments = joined((0, 0), delta.function_call.arguments)

    def _joined(self, place: Place, text: str) -> str:
        text = self._halves.pop(place, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._halves[place] = text[-1]
            text = text[:-1]
        return paired(text)

    def _tell_halves(self, out: list[Event]) -> None:
        """The other halves will not come."""
        last = Delta()
        for where, _ in self._halves:
            if isinstance(where, str):
                setattr(last, where, "\ufffd")
            else:
                last.tool_calls = [Call(index=where, function=Function(arguments="\ufffd")), *(last.tool_calls or ())]
        self._halves.clear()
        self._delta(last, out)

    def _finish(self, out: list[Event]) -> None:
        self._tell_halves(out)
        self._calls.close(out)
        native = self._reason
        reason = REASONS.get((native or "stop").lower(), "stop")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._calls else "stop"
        usual = native is None or native == reason or (reason == "tool_calls" and native == "stop")
        out.append(Finish(reason, _counted(self._usage), None if usual else native))
        self.ended = True

    def _fail(self, fault: Fault, out: list[Event]) -> None:
        """What fails here had been announced as a success: the server's status was 200."""
        self._tell_halves(out)
        self._calls.flush(out)
        out.append(Failed(msgspec.structs.replace(fault, status=200)))
        self.ended = True

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        """The body ended. Rule 8: a finish reason is success, whatever broke afterwards; without one it is a fault.

        `fault` is what broke the body, None for a clean end; `junk` is a line of the body that no framing explains.
        """
        out: list[Event] = []
        if self.ended:
            return out
        if self._reason or (self._whole and fault is None):
            self._finish(out)
        elif fault is not None:
            self._fail(fault, out)
        elif self._foreign is not None and not self.started:
            self._fail(faults.from_object(msgspec.to_builtins(self._foreign), None), out)
        elif junk and not self.started:
            self._fail(faults.protocol(junk), out)
        else:
            self._fail(faults.made("upstream_incomplete", "the model server's reply ended before it was finished"), out)
        return out


def _alone(place: Place, text: str) -> str:
    """What is whole has no other half to wait for."""
    return paired(text)


def _detailed(details: list[Any]) -> str:
    """The text of OpenRouter's `reasoning_details`, for where no other field has it."""
    pieces = (item.get("text") or item.get("summary") for item in details if isinstance(item, dict))
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _opaque(details: list[Any]) -> list[dict[str, Any]]:
    """Of `reasoning_details`, what must go back verbatim."""
    return [
        {key: value for key, value in item.items() if key not in ("text", "summary", "index")}
        for item in details
        if isinstance(item, dict) and (item.get("signature") or item.get("data"))
    ]


def _counted(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """The server's numbers unchanged; the two that servers nest in details also stand beside the others."""
    if usage is None:
        return None
    found = {}
    for details, name in (
        ("completion_tokens_details", "reasoning_tokens"),
        ("prompt_tokens_details", "cached_tokens"),
    ):
        nested = usage.get(details)
        value = nested.get(name) if isinstance(nested, dict) else None
        if value is not None and name not in usage:
            found[name] = value
    return usage | found


def _refused(base_resp: dict[str, Any] | None) -> bool:
    """MiniMax says errors in `base_resp`; its code 0 is success."""
    return bool(base_resp) and base_resp is not None and base_resp.get("status_code") not in (0, None)
