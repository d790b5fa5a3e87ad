"""For any list, in any format: a model server is sent one that it takes, or the caller gets the place of
what is wrong.

8,000 lists of each format, and five times as many damaged ones, with `FUZZ=long`, which differ in every run.
"""

import json
import re
from random import Random
from typing import Any

import pytest
from app.errors import Violation
from app.formats import FORMATS
from app.formats.base import Options
from app.openai_messages.messages import write_openai_messages
from app.profiles import KINDS, Profile

from tests.conversations.openai_rules import broken
from tests.conversations.random_conversations import WRITERS, damaged, script
from tests.conversations.sample_conversations import MODELS, convert
from tests.effort import LONG
from tests.in_process_gateway import ModelServer, Running

LISTS = 8000 if LONG else 120
DAMAGED = 40_000 if LONG else 60
TRANSLATED = 400 if LONG else 20
OVER_HTTP = 200 if LONG else 15
PROFILES = [
    Profile(),
    KINDS["mistral"],
    KINDS["deepseek"],
    Profile(names="all", text_parts=True, empty_content="empty"),
]
SOUND = Options()
BAD_REQUESTS = {("anthropic", "/v1/chat"), ("responses", "/v1/chat"), ("openai", "/v1/chat"), ("gemini", "/v1/chat")}
"""What is refused with 400 instead of 422."""
each_form = pytest.mark.parametrize("form", FORMATS)
_STEP = re.compile(r'\.?([A-Za-z_$][\w$-]*)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')


def dice(form: str, what: str) -> Random:
    return Random(None if LONG else f"{form} {what}")


def sent(form: str, messages: list[Any], profile: Profile) -> tuple[list[Any], list[Violation]]:
    """(what a model server is sent, why nothing)."""
    decoded = FORMATS[form].parse(messages, SOUND)
    if decoded.violations:
        return [], list(decoded.violations)
    return write_openai_messages(decoded.messages, profile, FORMATS[form].text_joiner)


def place(path: str, messages: list[Any]) -> bool:
    """Whether the path is one of this list; its last step may be missing there."""
    assert path.startswith("messages"), path
    rest, value, steps = path.removeprefix("messages"), messages, 0
    while rest:
        match = _STEP.match(rest)
        assert match, path
        rest = rest[match.end() :]
        step: Any = int(match[2]) if match[2] else match[1] or match[3]
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return not rest
        steps += 1
    return True


@each_form
def test_a_model_server_takes_every_list_that_it_is_sent(form: str) -> None:
    roll, taken = dice(form, "lists"), 0
    for number in range(LISTS):
        messages = WRITERS[form](script(roll), roll)
        found, wrong = sent(form, messages, PROFILES[number % len(PROFILES)])
        assert bool(found) is not bool(wrong), messages
        assert all(place(one.path, messages) for one in wrong), (wrong, messages)
        assert wrong or broken(found) is None, (broken(found), messages)
        taken += not wrong
    assert LISTS // 3 < taken < LISTS * 0.95


def noted(form: str, roll: Random) -> list[Any]:
    """A list as a client writes it, or a translation with the gateway's notes in it."""
    source = roll.choice((form, *FORMATS))
    messages: list[Any] = WRITERS[source](script(roll), roll)
    read = FORMATS[source].parse(messages, SOUND)
    there = FORMATS[form].write(read.messages, SOUND).messages if read.messages else []
    return json.loads(json.dumps(there)) if there and source != form else messages


@each_form
def test_a_damaged_list_is_sent_sound_or_refused_with_a_place(form: str) -> None:
    roll, refused = dice(form, "damage"), 0
    for _ in range(DAMAGED):
        messages = damaged(noted(form, roll), roll)
        found, wrong = sent(form, messages, Profile())
        assert bool(found) is not bool(wrong), messages
        assert all(place(one.path, messages) for one in wrong), (wrong, messages)
        assert wrong or broken(found) is None, (broken(found), messages)
        refused += bool(wrong)
    assert refused > DAMAGED // 3


@each_form
def test_a_list_that_is_sent_says_the_same_in_every_format(form: str) -> None:
    roll, same = dice(form, "translated"), 0
    for _ in range(TRANSLATED):
        messages = WRITERS[form](script(roll), roll)
        expected, wrong = sent(form, messages, Profile())
        for to in () if wrong else FORMATS:
            there, warnings = convert(form, to, messages)
            found, refused = sent(to, there, Profile())
            assert warnings or (found == expected and not refused), (to, messages, found, expected, refused)
            same += not warnings
    assert same > TRANSLATED


@each_form
def test_a_translation_to_openai_is_a_list_that_a_model_server_takes(form: str) -> None:
    roll = dice(form, "to openai")
    for _ in range(TRANSLATED):
        messages = WRITERS[form](script(roll), roll)
        there, _ = convert(form, "openai", messages) if sent(form, messages, Profile())[0] else ([], ())
        assert not there or broken([_bare(one) for one in there]) is None, (messages, there)


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """Blank arguments and empty text go back as they came; a model server is sent other ones."""
    calls = [
        {**one, "function": {**one["function"], "arguments": one["function"]["arguments"] or "{}"}}
        for one in message.get("tool_calls", ())
    ]
    content = message["content"]
    parts = [one for one in content if one.get("text") != ""] if isinstance(content, list) else content
    return {**message, "content": parts} | ({"tool_calls": calls} if calls else {})


@each_form
def test_no_list_is_a_fault_of_the_gateway(form: str) -> None:
    roll = dice(form, "http")
    with Running(MODELS, ModelServer()) as running:
        for _ in range(OVER_HTTP):
            messages = damaged(noted(form, roll), roll)
            request = {"model": "plain", "messages": messages, "format": form, "stream": False}
            for path in ("/v1/chat", "/v1/convert"):
                body = request if path == "/v1/chat" else {"messages": messages, "from": form, "to": "openai"}
                answer = running.post(path, body)
                refused = 400 if (form, path) in BAD_REQUESTS else 422
                assert answer.status in (200, refused) or "\\ud800" in str(body), (answer.body, messages)
                if answer.status == refused and "\\ud800" not in str(body):
                    assert b"messages" in answer.body, answer.body
