"""Checks the text of a reply against the request's `response_format`: its JSON schema, or that it is JSON.

Servers that enforce a schema may let the model go on with white space behind its JSON up to the limit of tokens
(vllm-project/vllm issues 8020, 55313; ollama/ollama issues 2577, 4446): the reply is ended there.

Servers that enforce a schema from the first token on, while the prompt has already opened the model's reasoning, send
the JSON as reasoning, and no text (vllm-project/vllm issues 19222, 41132; lmstudio-ai/lmstudio-bug-tracker issue 1773).
It becomes the text as well.
"""

import re
from collections.abc import Mapping
from typing import Any

import json_repair
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import Event, Finish, OutputOutcome, Passed, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.guarding import Guarding
from app.chat.messages import ChatRequest
from app.profiles import Profile
from app.steps.json_format import is_enforced
from app.steps.json_schema import Stop, Unchecked, is_prepared, prepare_schema, validate

MAX_TEXT_CHARACTERS = 1024 * 1024
"""A longer reply is not checked."""
MAX_WORK = 5_000
"""The work of a check in the event loop, and the length of a text for that, in characters divided by 20: at most some
50 ms. See `json_schema.validate`."""
MAX_WORK_IN_THREAD = 200_000

MAX_TRAILING_SPACE = 1000
"""The white space behind valid JSON, in characters, with which the reply is ended."""

MAX_MENDED_DEPTH = 50
"""json_repair takes the square of a row of opening brackets, which a model may repeat without end."""

ANY_JSON: Mapping[str, Any] = {"type": ["object", "array"]}
"""What `json_object` without a schema demands. Servers differ in whether it may be an array."""

_FENCE = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\r?\n")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_NO_NUMBER = re.compile(r"[:\[,]\s*-?(?:NaN|Infinity)\b")
"""What json_repair would make a string."""
_BRACKET = re.compile(r"[][{}]")
_NO_CONTENT = re.compile(r"[\s,:\"'\\]+")


class OutputCheck(Struct, frozen=True):
    outcome: OutputOutcome
    text: str
    """The text that is valid: without a fence, with commas mended. The reply's own for other outcomes."""
    problems: tuple[str, ...] = ()
    """What is wrong with an invalid text, each with its JSON path; why another could not be checked."""


def find_output_schema(request: ChatRequest) -> Mapping[str, Any] | bool | None:
    """Return the schema that the reply must obey; None if the request has none, or asks for no text."""
    given = request.params.get("response_format") if request.params else None
    if not isinstance(given, dict) or (kind := given.get("type")) not in ("json_object", "json_schema"):
        return None
    holder = given if kind == "json_object" else given.get("json_schema")  # llama.cpp has a schema beside json_object
    schema = holder.get("schema") if isinstance(holder, dict) else None
    if not isinstance(schema, dict | bool):
        schema = ANY_JSON if kind == "json_object" else None
    return schema


def has_new_schema(request: ChatRequest) -> bool:
    """Whether the check of the reply must first read the schema, which takes up to 0.4 s: see `prepare_check`."""
    schema = find_output_schema(request)
    return schema is not None and schema is not ANY_JSON and not is_prepared(schema)


def prepare_check(request: ChatRequest) -> None:
    """Read the schema of a request."""
    schema = find_output_schema(request)
    if schema is not None and schema is not ANY_JSON:
        prepare_schema(schema)


def check_output(text: str, schema: Mapping[str, Any] | bool, max_work: int, stop: Stop | None = None) -> OutputCheck:
    """Check a text. One that is valid JSON only without a fence, or with its commas or quotes mended, is `mended`."""
    if len(text) > min(MAX_TEXT_CHARACTERS, max_work * 20):
        return OutputCheck("unchecked", text, ("it is too long to be checked",))
    try:
        problems = _check_json(text, schema, max_work, stop)
        if not problems:
            return OutputCheck("valid", text)
        mended = _repair(text, max_work)
        if mended is not None and not _check_json(mended, schema, max_work, stop):
            return OutputCheck("mended", mended)
    except Unchecked as error:
        return OutputCheck("unchecked", text, (str(error),))
    return OutputCheck("invalid", text, tuple(problems))


def _check_json(text: str, schema: Mapping[str, Any] | bool, max_work: int, stop: Stop | None) -> list[str]:
    try:
        value = msgspec.json.decode(text)
    except UnicodeEncodeError:
        return ["$: the text has half of a surrogate pair"]
    except RecursionError:
        return ["$: the JSON is nested too deeply"]
    except msgspec.DecodeError as error:
        return [f"$: the text is not JSON: {error}" if text.strip() else "$: the text is empty"]
    if schema is ANY_JSON:
        return [] if isinstance(value, dict | list) else ["$: the JSON is neither an object nor an array"]
    return validate(value, schema, max_work, stop)


def _repair(text: str, max_work: int) -> str | None:
    """Return the JSON that a text is meant to be; None if that would lose or invent any of it, or take more than
    `max_work` units of 10 µs, of which json_repair needs up to one for two characters."""
    inner = text.strip("\ufeff \t\r\n")
    fence = _FENCE.match(inner)
    if fence is not None and inner.endswith("```"):
        inner = inner[fence.end() : -3].strip()
    inner = _STRING.sub(_escape_control, inner)
    try:
        msgspec.json.decode(inner)
        return inner
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    if _NO_NUMBER.search(inner):
        return None
    if not inner.startswith(("{", "[")) or len(inner) > 2 * max_work or _is_deep(inner):
        return None
    try:
        value = json_repair.loads(inner)
        mended = msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None
    return mended if _list_content(mended) == _list_content(inner) else None


def _escape_control(string: re.Match[str]) -> str:
    """Return a string as it is, but with escapes for its line ends and other control characters."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", string[0])


def _is_deep(text: str) -> bool:
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "{[" else -1
        if depth > MAX_MENDED_DEPTH:
            return True
    return False


def _list_content(text: str) -> str:
    """Return the text without what a repair may change: white space, commas, quotes."""
    return _NO_CONTENT.sub("", text)


def name_demand(schema: Mapping[str, Any] | bool, path: str) -> str:
    """Return what a reply must obey, in words. `path` is that of the response format in the request."""
    return path if schema is ANY_JSON else f"the schema of {path}"


def describe_check(check: OutputCheck, demand: str) -> str:
    """Return a sentence about a text that is not simply valid. `demand`: see `name_demand`."""
    if check.outcome == "mended":
        return f"the reply is valid against {demand} only without its fence, or with mended commas, quotes or line ends"
    if check.outcome == "unchecked":
        return f"the reply was not checked against {demand}: {check.problems[0]}"
    more = f" (and {len(check.problems) - 1} more)" if len(check.problems) > 1 else ""
    return f"the reply is not valid against {demand}: {check.problems[0]}{more}"


class OutputCheckStage:
    """Checks the text at the end of the reply. One that is invalid gets a warning, and is not cached."""

    def __init__(
        self,
        schema: Mapping[str, Any] | bool,
        path: str,
        *,
        warns: bool,
        valid: OutputOutcome = "valid",
        guard: Guarding | None = None,
    ) -> None:
        """`path` is that of the response format in the request. Without `warns`, another part of the gateway acts on
        an invalid text. `valid` is the outcome of a valid one. `guard` is that of the request."""
        self._valid = valid
        self._guard = guard
        self._schema = schema
        self._demand = name_demand(schema, path)
        self._warns = warns
        self._texts: list[str] = []
        self._length = 0
        self._reasoning: list[str] = []
        """As long as there is no text."""
        self._reasoning_length = 0
        self._space = 0
        """White space at the end of the text so far, in characters."""
        self._looks_left = 3
        """How often the text may be checked before the reply ends."""
        self._ended = False
        self._has_calls = False
        self._passes = False
        """The client gets the server's own events, to which no text can be added."""

    def feed(self, events: list[Event]) -> list[Event]:
        if self._ended:
            return []
        for event in events:
            if type(event) is TextDelta:
                self._add(event)
            elif type(event) is ReasoningDelta:
                self._add_reasoning(event.text)
            elif type(event) is ToolCallDelta:
                self._has_calls = True
            elif type(event) is Passed:
                self._passes = True
        last = events[-1] if events else None
        if type(last) is not Finish and self._is_complete():
            self._ended = True
            return [*events, self._warn_ended()]
        if type(last) is not Finish or self._has_calls:
            return events
        if last.reason == "length":
            return [*events[:-1], self._check_cut(last)]
        if last.reason != "stop":
            return events
        moved = self._find_reasoned_output()
        if moved is not None:
            return [*events[:-1], TextDelta(moved), self._warn_moved(last)]
        return [*events[:-1], self._check(last)]

    def _add(self, event: TextDelta) -> None:
        if event.refusal:
            self._has_calls = True  # a refusal is no attempt at the output
        text = event.text.rstrip()
        self._space = len(event.text) - len(text) + (0 if text else self._space)
        self._length += len(event.text)
        if self._length <= MAX_TEXT_CHARACTERS:
            self._texts.append(event.text)
        if self._reasoning and not event.text.isspace():
            self._reasoning = []

    def _is_complete(self) -> bool:
        """Whether the text is valid JSON with much white space behind it."""
        if self._space <= MAX_TRAILING_SPACE or not self._looks_left or self._has_calls or self._passes:
            return False
        self._space = -MAX_TEXT_CHARACTERS  # the same space is looked at once
        self._looks_left -= 1
        return self._check_text().outcome == "valid"

    def _warn_ended(self) -> Finish:
        text = f"the model went on with white space behind its JSON for {self._demand}, so the reply was ended there"
        return Finish("stop", warnings=(text,), output=self._valid)

    def _add_reasoning(self, text: str) -> None:
        self._reasoning_length += len(text)
        if self._reasoning_length <= MAX_TEXT_CHARACTERS:
            self._reasoning.append(text)

    def _find_reasoned_output(self) -> str | None:
        """Return the reasoning of a reply without text, if it is valid JSON as it is."""
        if self._passes or self._reasoning_length > MAX_TEXT_CHARACTERS or "".join(self._texts).strip():
            return None
        text = "".join(self._reasoning).strip()
        if not text.startswith(("{", "[")) or self._check_whole(text).outcome != "valid":
            return None
        return text

    def _warn_moved(self, finish: Finish) -> Finish:
        warning = f"the model server sent the JSON for {self._demand} as reasoning; it is the text as well"
        return replace(finish, output="mended", warnings=(*finish.warnings, warning))

    def _check_cut(self, finish: Finish) -> Finish:
        """Check a reply that has reached its limit of tokens, perhaps behind its JSON."""
        if self._check_text().outcome == "valid":
            return replace(finish, output=self._valid)
        text = (
            f"the reply reached its limit of tokens before its JSON was complete for {self._demand}; raise max_tokens"
        )
        return replace(finish, output="unchecked", warnings=(*finish.warnings, text))

    def _check_text(self) -> OutputCheck:
        text = "".join(self._texts) if self._length <= MAX_TEXT_CHARACTERS else " " * (MAX_TEXT_CHARACTERS + 1)
        return self._check_whole(text)

    def _check_whole(self, text: str) -> OutputCheck:
        """Check a text as the client gets it. What is said of it is kept with the reply, in which values are masked."""
        guard = self._guard
        if guard is None:
            return check_output(text, self._schema, MAX_WORK)
        check = check_output(guard.restore_text(text), self._schema, MAX_WORK)
        return replace(check, problems=tuple(map(guard.mask_text, check.problems)))

    def _check(self, finish: Finish) -> Finish:
        check = self._check_text()
        if check.outcome == "valid":
            return replace(finish, output=self._valid)
        finish = replace(finish, output=check.outcome)
        if self._warns:
            finish = replace(finish, warnings=(*finish.warnings, describe_check(check, self._demand)))
        return replace(finish, cacheable=False) if check.outcome == "invalid" else finish


def make_output_stage(request: ChatRequest, profile: Profile) -> OutputCheckStage | None:
    schema = None if profile.check_output == "off" else find_output_schema(request)
    if schema is None:
        return None
    path, warns = request.paths.param("response_format"), profile.check_output == "warn"
    valid: OutputOutcome = "valid" if is_enforced(request, profile) else "explained"
    return OutputCheckStage(schema, path, warns=warns, valid=valid, guard=request.guard)
