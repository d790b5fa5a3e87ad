"""The demonstration model itself: one request in, all deltas of its reply out; equal requests get equal replies."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from app.demo import prompted
from app.demo.choosing import calls
from app.demo.clues import find
from app.demo.filler import Filler
from app.demo.language import detect
from app.demo.phrases import PHRASES, Phrases
from app.demo.request import Request, Turn

_MOST_READ = 2000
_MOST_QUOTED = 120
_MOST_RESULT = 600
_FRAGMENT = 8
_TOKEN = re.compile(r"\s*(?:[\u3040-\u30ff\u3400-\u9fff]{1,2}|[^\s\u3040-\u30ff\u3400-\u9fff]+)|\s+")


@dataclass(frozen=True, slots=True)
class Thought:
    text: str
    kind: Literal["thought"] = "thought"


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    kind: Literal["said"] = "said"


@dataclass(frozen=True, slots=True)
class Called:
    """A piece of a call: the first of each `index` has its id and name, the others a fragment of its arguments."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    kind: Literal["called"] = "called"


@dataclass(frozen=True, slots=True)
class Done:
    reason: str
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    kind: Literal["done"] = "done"


Delta = Thought | Said | Called | Done


@dataclass(frozen=True, slots=True)
class _Reply:
    thought: str
    content: str
    calls: list[tuple[str, str]] = field(default_factory=list)


def think(request: Request) -> list[Delta]:
    """The reply to `request`; the last delta is its only `Done`."""
    explained = prompted.understood(request)
    reply = _reply(explained or request)
    if explained:
        reply = _Reply(reply.thought, prompted.said(reply.content, reply.calls))
    content, stopped = _until_stop(reply.content, request.stop)
    thoughts: list[Delta] = [Thought(token) for token in tokens(reply.thought)] if request.thinking else []
    said: list[Delta] = [Said(token) for token in tokens(content)]
    called: list[Delta] = [] if stopped else list(_called(reply.calls, request.fingerprint))
    reason = "tool_calls" if called else "stop"
    kept, cut = _within(request.max_tokens, thoughts, said + called)
    reasoning = sum(delta.kind == "thought" for delta in kept)
    return [*kept, Done("length" if cut else reason, _prompt_tokens(request), len(kept), reasoning)]


def tokens(text: str) -> list[str]:
    """Words with the space before them, or pairs of ideographs and kana; joined they are the text."""
    return _TOKEN.findall(text)


def _reply(request: Request) -> _Reply:
    asked = next((turn for turn in reversed(request.turns) if turn.role == "user"), Turn("user", ""))
    question = asked.text[:_MOST_READ]
    language = detect(question)
    phrases = PHRASES[language]
    quote = _shortened(asked.text, _MOST_QUOTED)
    last = request.turns[-1]
    if last.role in ("tool", "function"):
        return _Reply(phrases.thought_of_result, _as_asked(request, _results(request, phrases), asked, language))
    made = calls(request, question, language) if last.role == "user" else []
    if made:
        names = phrases.comma.join(dict.fromkeys(name for name, _ in made))
        return _Reply(phrases.thought_of_call.format(quote=quote, names=names), phrases.check, made)
    answer = phrases.answer.format(quote=quote)
    if asked.media:
        answer += phrases.space + phrases.media.format(count=len(asked.media), types=phrases.comma.join(asked.media))
    return _Reply(phrases.thought.format(quote=quote), _as_asked(request, answer, asked, language))


def _as_asked(request: Request, answer: str, asked: Turn, language: str) -> str:
    """The answer as the response format wants it."""
    if not request.wants_json:
        return answer
    value: Any = {"model": "parley-demo", "answer": answer}
    if request.schema is not None:
        value = Filler(request.schema, find(asked.text), language).fill()
    return json.dumps(value, ensure_ascii=False)


def _results(request: Request, phrases: Phrases) -> str:
    names = {call_id: name for turn in request.turns for call_id, name in turn.calls}
    told: list[str] = []
    for turn in reversed(request.turns):
        if turn.role not in ("tool", "function"):
            break
        name = names.get(turn.call_id) or turn.name or turn.call_id
        told.insert(0, phrases.result.format(name=name, text=_shortened(turn.text, _MOST_RESULT)))
    return "\n".join(told)


def _shortened(text: str, most: int) -> str:
    """On one line, and not longer than `most` characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _until_stop(content: str, stop: tuple[str, ...]) -> tuple[str, bool]:
    places = [content.find(each) for each in stop if each in content]
    return (content[: min(places)], True) if places else (content, False)


def _called(made: list[tuple[str, str]], fingerprint: str) -> Iterator[Called]:
    for index, (name, arguments) in enumerate(made):
        yield Called(index, f"call_{fingerprint[:22]}{index:02d}", name)
        size = max(1, min(_FRAGMENT, len(arguments) // 2))
        for at in range(0, len(arguments), size):
            yield Called(index, arguments=arguments[at : at + size])


def _within(most: int | None, thoughts: list[Delta], answer: list[Delta]) -> tuple[list[Delta], bool]:
    """Each delta counts as one token; a tight limit leaves half of itself for the answer."""
    if most is None or len(thoughts) + len(answer) <= most:
        return thoughts + answer, False
    room = max(most // 2, most - len(answer))
    kept = thoughts[:room]
    return kept + answer[: most - len(kept)], True


def _prompt_tokens(request: Request) -> int:
    return sum(len(turn.text) // 4 + 4 for turn in request.turns)
