"""What the chaos run asks of tools that the gateway runs, and what must come back.

A prompt says how many turns its reply has and which tools each of them calls. The model server computes each turn from
the prompt and the results before it, and so does the client from the results that it got: the last turn ends with
a checksum of all results, so one that was lost, doubled or changed on its way to the model or to the client is found.
"""

import functools
import hashlib
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaos_replies import (
    SAME,
    Answer,
    Received,
    ServedCall,
    ServedResult,
    find_difference,
    make_text,
    read_prompt,
    spell_like,
)

SERVERS = ("stdio", "http", "alone")
"""`alone` starts a process for each reply that calls it."""
TOOLS = {
    **{"echo": 40, "slow": 10, "fail": 8, "refuse": 5, "huge": 5, "flood": 5, "nonsense": 5, "twice": 5},
    **{"hang": 3, "die": 3, "long_line": 2, "rename": 3, "renamed_1": 3, "unknown": 3},
}
"""The tools that turns call, and how often."""
MAX_RESULT_BYTES = 4000
HUGE_BYTES = 200_000
_MOST_TURNS, _MOST_CALLS = 3, 4
_WORKS = ("echo", "slow", "flood", "twice", "rename", "renamed_1")
_CUT = re.compile(r"\n\[… \d+ of \d+ bytes left out\]$")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    id: str
    server: str
    tool: str
    token: str
    """Unique in the whole run: a tool must see it at most once."""

    @property
    def name(self) -> str:
        return f"{self.server}-{self.tool}"

    @property
    def arguments(self) -> str:
        return json.dumps({"token": self.token})


@functools.lru_cache(maxsize=4096)
def plan_turns(prompt: str) -> list[list[PlannedCall]]:
    """The calls of each turn but the last one, which has none."""
    pick, name = random.Random(f"plan {prompt}"), read_prompt(prompt).name
    return [
        [
            PlannedCall(
                *(f"call_{turn}_{place}", pick.choices(SERVERS, (6, 6, 1))[0]),
                *(pick.choices(list(TOOLS), list(TOOLS.values()))[0], f"{name}.{turn}.{place}"),
            )
            for place in range(pick.randint(1, _MOST_CALLS))
        ]
        for turn in range(pick.randint(1, _MOST_TURNS))
    ]


def answer_turn(prompt: str, turn: int, results: Sequence[str]) -> Answer:
    """The reply of the model server to a conversation with these results."""
    question, planned = read_prompt(prompt), plan_turns(prompt)
    reasoning = make_text(f"thought {prompt} {turn}", SAME, max(1, question.words // 3))
    content = make_text(f"text {prompt} {turn}", SAME, question.words)
    if turn < len(planned):
        calls = tuple((call.id, call.name, call.arguments) for call in planned[turn])
        return Answer(reasoning, content, "", len(prompt), question.words, calls)
    digest = hashlib.sha256(json.dumps(results).encode()).hexdigest()[:16]
    return Answer(reasoning, f"{content} results={digest}", "", len(prompt), question.words)


def answer_conversation(messages: Sequence[dict[str, Any]]) -> Answer:
    """The reply to a request of the gateway, or one that no client accepts if its calls and results do not match."""
    prompt = str(messages[0]["content"])
    turns = [message for message in messages[1:] if message["role"] == "assistant"]
    results = [message for message in messages[1:] if message["role"] == "tool"]
    planned = [call for calls in plan_turns(prompt)[: len(turns)] for call in calls]
    wanted = [(call.id, json.loads(call.arguments)) for call in planned]
    called = [call for turn in turns for call in turn.get("tool_calls") or ()]
    calls = [(call["id"], json.loads(call["function"]["arguments"])) for call in called]
    told = [message["tool_call_id"] for message in results]
    if calls != wanted or told != [id_ for id_, _ in wanted]:
        return Answer(SAME, f"the history has the calls {calls} and results for {told}", "", 1, 1)
    return answer_turn(prompt, len(turns), [str(message["content"]) for message in results])


def say_done(tool: str, token: str) -> str:
    """The text of a result that is no error."""
    return f"{tool} has done {token}"


def find_loop_mistake(prompt: str, received: Received) -> str:
    """What is wrong with a reply, whole or not; empty if nothing is."""
    planned = [call for calls in plan_turns(prompt) for call in calls]
    arguments = [call.arguments for call in received.calls] + [""] * len(planned)
    wanted_calls = [
        ServedCall(call.id, call.name, spell_like(call.arguments, text))
        for call, text in zip(planned, arguments, strict=False)
    ]
    if not _are_right(received, wanted_calls):
        return f"the calls are {received.calls}"
    told = [result.id for result in received.results]
    if told != [call.id for call in received.calls[: len(told)]] or len(told) > len(received.calls):
        return f"{len(received.calls)} calls have results for {told}"
    for call, result in zip(planned, received.results, strict=False):
        if not is_possible(call, result):
            return f"{call.name} has the result {result.text[:200]!r}"
    reasoning, content = _expect_texts(prompt, received)
    for name, got, want in (
        ("reasoning", received.reasoning, reasoning),
        ("content", received.content, content),
    ):
        if not want.startswith(got):
            return f"{name} is wrong {find_difference(got, want)}"
        if received.ended == "completed" and got != want:
            return f"the reply was completed, but its {name} is cut off"
    if received.ended != "completed":
        return ""
    if len(told) != len(planned):
        return f"the reply was completed with {len(told)} of {len(planned)} results"
    return "" if received.finish_reason == "stop" else f"the finish reason is {received.finish_reason!r}, not 'stop'"


def _are_right(received: Received, wanted: Sequence[ServedCall]) -> bool:
    """Whether the calls are those of the prompt. The last one may be cut off: a snapshot has it from its beginning."""
    if received.calls == wanted[: len(received.calls)]:
        return True
    *whole, last = received.calls
    count = len(whole)
    if count >= len(wanted) or received.ended == "completed" or len(received.results) > count:
        return False
    begun = replace(wanted[count], arguments=last.arguments)
    return whole == wanted[:count] and last == begun and wanted[count].arguments.startswith(last.arguments)


def is_possible(call: PlannedCall, result: ServedResult) -> bool:
    """Whether a call can have this result. Any call can fail, because its server can."""
    if result.failed or call.tool == "nonsense":
        return result.text.startswith(("Error", f"{call.tool} has failed {call.token}")) or call.tool == "nonsense"
    done = say_done(call.tool, call.token)
    if call.tool == "huge":
        return result.text.startswith(done) and _CUT.search(result.text) is not None
    return call.tool in _WORKS and result.text == done


def _expect_texts(prompt: str, received: Received) -> tuple[str, str]:
    """The reasoning and the content of all turns that may have begun."""
    reasoning = content = ""
    count = 0
    for turn, calls in enumerate([*plan_turns(prompt), []]):
        said = answer_turn(prompt, turn, [result.text for result in received.results])
        reasoning, content = reasoning + said.reasoning, content + said.content
        count += len(calls)
        if len(received.results) < count:
            break
    return reasoning, content
