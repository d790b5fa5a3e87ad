"""For any list, in any format: a server of the Gemini API is sent a body that it takes, or the caller an error."""

import json
from random import Random
from typing import Any

import msgspec
import pytest
from app.chat.messages import ChatRequest, Tool
from app.errors import ParleyError
from app.formats import FORMATS
from app.formats.base import Options
from app.profiles import find_profile
from app.steps.pipeline import prepare_request
from app.upstream.gemini.request import build

from tests.conversations.random_conversations import WRITERS, damaged, script
from tests.effort import LONG
from tests.steps.word_counter import Words
from tests.upstream.gemini.google_rules import find_broken_rule

Json = dict[str, Any]
LISTS = 8000 if LONG else 150
PROFILES = [find_profile(kind, "gemini") for kind in ("gemini", "vertex", "openai_compatible")]
TOOLS = tuple(Tool(name, {"name": name}) for name in ("f", "g", "get_weather", "3d.render a"))


def send(form: str, messages: list[Any], number: int) -> Json | None:
    """Return what a server is sent; None if the list is refused."""
    decoded = FORMATS[form].parse(messages, Options())
    if decoded.violations:
        return None
    profile = PROFILES[number % len(PROFILES)]
    request = ChatRequest("m", decoded.messages, TOOLS, text_joiner=FORMATS[form].text_joiner)
    try:
        prepared, _ = prepare_request(request, profile, Words(), {})
        sent: Json = json.loads(msgspec.json.encode(build(prepared, "up", profile)[0]))
    except (ParleyError, UnicodeEncodeError):  # the gateway refuses half a surrogate pair when it reads the body
        return None
    return sent


@pytest.mark.parametrize("form", FORMATS)
def test_every_list_that_is_sent_is_one_that_google_takes(form: str) -> None:
    roll, taken = Random(None if LONG else f"{form} gemini"), 0
    for number in range(LISTS):
        messages = WRITERS[form](script(roll), roll)
        if number % 3 == 2:
            messages = damaged(messages, roll)
        body = send(form, messages, number)
        assert body is None or find_broken_rule(body) is None, (find_broken_rule(body), messages)
        taken += body is not None
    assert taken > LISTS // 3
