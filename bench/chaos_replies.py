"""What the chaos run asks and what must come back: every reply is computed from its prompt, so each one can be checked.

A prompt says of itself how long its reply is and how it comes. The model server computes the reply from it, and so does
the client, which compares. Each word of a reply has its own place in it, so a reply that lacks a word, has one twice or
has one of another reply is never a prefix of the right one.
"""

import functools
import hashlib
import json
import random
import re
from dataclasses import dataclass, field
from typing import Literal


class WrongReplyError(Exception):
    """The gateway broke what it promises of the form of a reply."""


Kind = Literal["steady", "varying", "call", "loop"]
KINDS: dict[str, Kind] = {"steady": "steady", "varying": "varying", "call": "call", "loop": "loop"}
SAME = "00000000"
"""The mark of replies that are the same however often they are asked for."""
MARK_LENGTH = len(SAME)
_PROMPT = re.compile(r"question \S+: (steady|varying|call|loop) reply of (\d+) words, (\d+) ms for each chunk")
_WORDS = (
    "river",
    "Straße",
    "日本語",
    "\u2028line",
    "🙂🇨🇭",
    'say "no"',
    "back\\slash",
    "new\nline",
    "data: x",
    "né",
    "a",
)


@dataclass(frozen=True, slots=True)
class Question:
    """`steady` and `call` replies are the same each time; a `varying` one is different for each call of the model. In a
    `loop` the gateway runs tools (`chaos_loops`)."""

    name: str
    kind: Kind
    words: int
    pace_ms: int

    @property
    def prompt(self) -> str:
        return f"question {self.name}: {self.kind} reply of {self.words} words, {self.pace_ms} ms for each chunk"


@dataclass(frozen=True, slots=True)
class Answer:
    reasoning: str
    content: str
    arguments: str
    """Of the one function call; empty without one."""
    prompt_tokens: int
    completion_tokens: int
    served: tuple[tuple[str, str, str], ...] = ()
    """Calls of tools that the gateway runs: ids, names, arguments."""

    @property
    def calls(self) -> tuple[tuple[str, str, str], ...]:
        return (("call_1", "look_up", self.arguments),) if self.arguments else self.served

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.calls else "stop"


def read_prompt(prompt: str) -> Question:
    """Raises: ValueError, if it is none of ours."""
    found = _PROMPT.fullmatch(prompt)
    if found is None:
        raise ValueError(f"not a prompt of the chaos run: {prompt!r}")
    return Question(prompt.split(" ", 2)[1].rstrip(":"), KINDS[found[1]], int(found[2]), int(found[3]))


@functools.lru_cache(maxsize=4096)
def answer(prompt: str, mark: str) -> Answer:
    """The reply to this prompt that begins with this mark of eight characters."""
    question = read_prompt(prompt)
    reasoning = make_text(f"thought {prompt}", mark, max(1, question.words // 3))
    text = make_text(f"text {prompt}", mark, question.words)
    if question.kind == "call":
        arguments = json.dumps({"text": text}, ensure_ascii=False)
        return Answer(reasoning, "", arguments, len(prompt), question.words)
    return Answer(reasoning, text, "", len(prompt), question.words)


def spell_like(arguments: str, got: str) -> str:
    """Return arguments as a client has them. In some APIs they are an object, which the gateway writes without white
    space."""
    compact = json.dumps(json.loads(arguments or "{}"), ensure_ascii=False, separators=(",", ":"))
    return compact if arguments and got and compact.startswith(got) else arguments


def make_text(seed: str, mark: str, count: int) -> str:
    pick = random.Random(f"{seed} {mark}")
    words = [f"{place}{pick.choice(_WORDS)}{pick.randrange(1000)}" for place in range(count)]
    digest = hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
    return " ".join([mark, *words, f"sum={digest}"])


@dataclass(frozen=True, slots=True)
class ServedCall:
    """A call that the gateway runs, as a client gets it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ServedResult:
    id: str
    text: str
    failed: bool


@dataclass(slots=True)
class Received:
    """What a client has of one reply."""

    reasoning: str = ""
    content: str = ""
    arguments: str = ""
    ended: Literal["", "completed", "failed"] = ""
    error: str = ""
    """The code of the error with which it failed."""
    finish_reason: str = ""
    usage: dict[str, object] | None = None
    calls: list[ServedCall] = field(default_factory=list)
    """Those that are whole, of a loop."""
    results: list[ServedResult] = field(default_factory=list)


def find_mistake(prompt: str, received: Received) -> str:
    """What is wrong with a reply, whole or not; empty if nothing is."""
    mark = _find_mark(prompt, received.reasoning)
    if mark is None:
        begun = received.reasoning
        if received.content or received.arguments or received.ended == "completed":
            return f"of the reasoning there is only {begun!r}"
        varies = read_prompt(prompt).kind == "varying"
        return "" if varies or SAME.startswith(begun) else f"the reply begins with {begun!r}"
    right = answer(prompt, mark)
    parts = (
        ("reasoning", received.reasoning, right.reasoning),
        ("content", received.content, right.content),
        ("arguments", received.arguments, spell_like(right.arguments, received.arguments)),
    )
    before_is_whole = True
    for name, got, want in parts:
        if got and not before_is_whole:
            return f"{name} came before what precedes it was whole"
        if not want.startswith(got):
            return f"{name} is wrong {find_difference(got, want)}"
        before_is_whole = before_is_whole and got == want
    if received.ended != "completed":
        return ""
    if not before_is_whole:
        lacking = next(name for name, got, want in parts if got != want)
        return f"the reply was completed, but its {lacking} is cut off"
    if received.finish_reason != right.finish_reason:
        return f"the finish reason is {received.finish_reason!r}, not {right.finish_reason!r}"
    if received.usage is None:
        return ""  # the model server broke off after the finish reason, so the reply counts as whole
    tokens = (received.usage.get("prompt_tokens"), received.usage.get("completion_tokens"))
    if tokens != (right.prompt_tokens, right.completion_tokens):
        return f"the usage is {received.usage}, not {right.prompt_tokens} and {right.completion_tokens} tokens"
    return ""


def _find_mark(prompt: str, reasoning: str) -> str | None:
    if len(reasoning) < MARK_LENGTH:
        return None
    return reasoning[:MARK_LENGTH] if read_prompt(prompt).kind == "varying" else SAME


def find_difference(got: str, want: str) -> str:
    place = next((at for at, (one, other) in enumerate(zip(got, want, strict=False)) if one != other), len(want))
    return f"at {place}: {got[place : place + 40]!r} instead of {want[place : place + 40]!r}"
