"""The demo model itself: a request in, the events of its reply out. Identical requests get identical replies."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.demo.arguments import IGNORED_WORDS, Details, fill_schema, find_details, is_name_parameter, read_required
from app.demo.request import AnswerFormat, DemoFunction, DemoMessage, DemoRequest, DemoTool, Question, strip_field_list

_WORD = re.compile(r"[^\W\d_]{2,}")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SMALL_TALK = re.compile(r"\W*((hello|hi|hey|thanks|thank you|bye|who are you|what can you do)\b.{0,20})?", re.I)


def choose_calls(request: DemoRequest, text: str, *, answered: bool) -> list[tuple[str, str]]:
    """Name and JSON arguments of each call, in order. `text` is the question, or a step of it, or with `answered` the
    results that came last."""
    tools = [] if request.tool_choice == "none" else _choose_tools(request, text, answered=answered)
    details = Details(text) if answered else find_details(text)
    if len(tools) == 1 and details.listed and _takes_one_name(tools[0]):
        each_name = [replace(details, names=(name,)) for name in details.listed]
        calls = [(tools[0].name, _write_arguments(tools[0], one)) for one in each_name]
    else:
        calls = [(tool.name, _write_arguments(tool, details)) for tool in tools]
    return calls if request.parallel_tool_calls else calls[:1]


def _choose_tools(request: DemoRequest, text: str, *, answered: bool) -> list[DemoFunction]:
    functions, choice = request.functions, request.tool_choice
    if isinstance(choice, DemoTool):
        return [function for function in functions if function.name == choice.function.name][:1]
    if answered:  # the last function is the `final_answer` of agents
        return functions[-1:] if choice == "required" else []
    asked = _find_words(text)
    if related := [function for function in functions if _find_words(function.name) & asked]:
        return related
    only_one = len(functions) == 1 and not _SMALL_TALK.fullmatch(text)
    return functions[:1] if only_one or choice == "required" else []


def _find_words(text: str) -> frozenset[str]:
    """Words that say what a text is about, without case and plural."""
    words = (word for word in _WORD.findall(_HUMP.sub(" ", text[:2000]).casefold()) if word not in IGNORED_WORDS)
    return frozenset(word.removesuffix("s") for word in words)


def _takes_one_name(function: DemoFunction) -> bool:
    """Whether several names in a question ask for as many calls."""
    return sum(is_name_parameter(*parameter) for parameter in read_required(function.parameters).items()) == 1


def _write_arguments(function: DemoFunction, details: Details) -> str:
    value = fill_schema(function.parameters, details) if function.parameters else {}
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)


Delta = ReasoningDelta | TextDelta | ToolCallDelta
ReplyEvent = Delta | Finish

THOUGHT = "The user asks: “{quote}”. I am only a demonstration model, so I shall say so and repeat the question."
THOUGHT_OF_CALL = "The user asks: “{quote}”. These functions can help: {names}."
THOUGHT_OF_RESULT = "The functions have answered. I shall report what they returned."
ANSWER = (
    "I am Parley's built-in demonstration model, so this is not a real answer. You asked: “{quote}”. "
    "To connect a real model, set PARLEY_UPSTREAM_URL to an OpenAI-compatible server or name one in parley.toml."
)
MEDIA = " I see {count} attachment(s), known to me only by media type: {types}."
SENTENCE = "This is sentence {number} of {count}, so that the reply is long enough to be cut and resumed. "
"""For "Write 300 sentences"."""
BEFORE_CALL = "Let me check."
RESULT = "The function {name} returned: {text}"

_MAX_QUOTED = 120
_MAX_ASKED = 2000
_THEN = re.compile(r"[\s,;.]+(?:and\s+)?then\b[\s,:]*", re.I)
_LONG_REPLY = re.compile(r"\b([1-9]\d{0,2}) sentences\b")
_MAX_RESULT = 600
_ARGUMENTS_PER_DELTA = 8
_TOKEN = re.compile(r"\s*\S{1,24}|\s+")


class DemoReply(Struct, frozen=True):
    thought: str
    content: str
    calls: tuple[tuple[str, str], ...] = ()
    """The name and the JSON arguments of each call."""


def think(question: Question) -> list[ReplyEvent]:
    """The last event is the only `Finish`. Each delta counts as one token."""
    request, reply = question.body, _compose(question)
    calls, content = reply.calls, reply.content
    if question.writes_calls:
        calls, content = (), "\n".join(filter(None, [content, *map(_write_call, calls)]))
    for stop in [request.stop] if isinstance(request.stop, str) else request.stop:
        if stop and stop in content:
            calls, content = (), content[: content.find(stop)]
    thinking = request.enable_thinking and request.chat_template_kwargs.get("enable_thinking") is not False
    deltas: list[Delta] = [ReasoningDelta(token) for token in split_tokens(reply.thought)] if thinking else []
    deltas += [TextDelta(token) for token in split_tokens(content)]
    deltas += _stream_calls(calls, question.fingerprint)
    most = request.max_completion_tokens or request.max_tokens or len(deltas)
    if most < len(deltas):
        return [*deltas[:most], Finish("length", _count_usage(question.prompt_tokens, deltas[:most]))]
    return [*deltas, Finish("tool_calls" if calls else "stop", _count_usage(question.prompt_tokens, deltas))]


def split_tokens(text: str) -> list[str]:
    """Words with the space before them; joined they are the text."""
    return _TOKEN.findall(text)


def _compose(question: Question) -> DemoReply:
    request = question.body
    asked = next((each for each in reversed(request.messages) if each.role == "user"), DemoMessage(role="user"))
    last = request.messages[-1]
    results = _read_results(request) if last.is_result else ""
    step = _find_step(request, asked)
    calls = choose_calls(request, step, answered=False) if step and (results or last.role == "user") else []
    if results and not calls:
        calls = choose_calls(request, results, answered=True)
    quote = _shorten(asked.text, _MAX_QUOTED)
    if calls:
        names = ", ".join(dict.fromkeys(name for name, _ in calls))
        before = BEFORE_CALL if request.tool_choice == "auto" else ""
        return DemoReply(THOUGHT_OF_CALL.format(quote=quote, names=names), before, tuple(calls))
    if results:
        return DemoReply(THOUGHT_OF_RESULT, _format_answer(question.answer_format, results, asked.text))
    answer = ANSWER.format(quote=quote)
    if wanted := _LONG_REPLY.search(asked.text[:_MAX_QUOTED]):
        count = int(wanted[1])
        answer = "".join(SENTENCE.format(number=number, count=count) for number in range(1, count + 1)).rstrip()
    if media := asked.media_types:
        answer += MEDIA.format(count=len(media), types=", ".join(media))
    return DemoReply(THOUGHT.format(quote=quote), _format_answer(question.answer_format, answer, asked.text))


def _find_step(request: DemoRequest, asked: DemoMessage) -> str:
    """The part of the question that is not answered yet: "…, then …" asks for one call after the other. Empty: all of
    it has been answered."""
    steps = _THEN.split(asked.text[:_MAX_ASKED])
    since = itertools.takewhile(lambda message: message is not asked, reversed(request.messages))
    done = sum(is_result for is_result, _ in itertools.groupby(message.is_result for message in since))
    if asked.is_result or done >= len(steps):
        return ""
    return steps[done] if len(steps) > 1 else asked.text


def _format_answer(wanted: AnswerFormat, answer: str, question: str) -> str:
    """The answer in the form that the request asks for: text, JSON, or sections."""
    if wanted.kind == "text":
        return answer
    value: Any = {"model": "parley-demo", "answer": answer}
    if wanted.schema is not None:
        value = fill_schema(wanted.schema, find_details(strip_field_list(question)))
    if wanted.kind == "sections" and isinstance(value, Mapping):
        sections = [f"[[ ## {name} ## ]]\n{_write_section(part)}" for name, part in value.items()]
        return "\n\n".join([*sections, "[[ ## completed ## ]]"])
    text = json.dumps(value, ensure_ascii=False)
    return f"```json\n{text}\n```" if wanted.kind == "json_block" else text


def _write_section(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_results(request: DemoRequest) -> str:
    """One sentence for each result since the last message of another kind."""
    names = {call.id: call.function.name for message in request.messages for call in message.tool_calls}
    sentences: list[str] = []
    for message in reversed(request.messages):
        if not message.is_result:
            break
        name = names.get(message.tool_call_id) or message.name or message.tool_call_id
        sentences.insert(0, RESULT.format(name=name, text=_shorten(message.text, _MAX_RESULT)))
    return "\n".join(sentences)


def _shorten(text: str, most: int) -> str:
    """Shorten a text to one line of at most `most` characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _write_call(call: tuple[str, str]) -> str:
    """Write a call as text, in the form that the nous prompt demands."""
    name, arguments = call
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'


def _stream_calls(calls: tuple[tuple[str, str], ...], fingerprint: str) -> Iterator[ToolCallDelta]:
    for index, (name, arguments) in enumerate(calls):
        yield ToolCallDelta(index, "", f"call_{fingerprint[:22]}{index:02d}", name)
        size = max(1, min(_ARGUMENTS_PER_DELTA, len(arguments) // 2))
        yield from (ToolCallDelta(index, arguments[at : at + size]) for at in range(0, len(arguments), size))


def _count_usage(prompt: int, deltas: list[Delta]) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": len(deltas),
        "total_tokens": prompt + len(deltas),
        "completion_tokens_details": {"reasoning_tokens": sum(isinstance(each, ReasoningDelta) for each in deltas)},
    }
