"""Goldens, and short names for what the tests of both versions do."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.chat.messages import ChatRequest, Message
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format, Options
from app.openai_messages.messages import write_openai_messages
from app.profiles import Profile
from app.steps.unmatched_calls import repair_calls

FOLDER = Path(__file__).parents[2] / "goldens"
BOTH = {"1": AGENTSCOPE, "2": AGENTSCOPE2}
Json = dict[str, Any]


def load(folder: str) -> dict[str, Json]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((FOLDER / folder).glob("*.json"))}


def decoded(form: Format, *messages: Any) -> tuple[Message, ...]:
    found = form.parse(list(messages), Options())
    assert not found.violations, found.violations
    return found.messages


def encoded(form: Format, messages: Sequence[Message]) -> list[Json]:
    return form.write(messages, Options()).messages


def refused(form: Format, *messages: Any) -> list[tuple[str, str]]:
    """Places and messages of the violations."""
    return [(found.path, found.message) for found in form.parse(list(messages), Options()).violations]


def warned(form: Format, *messages: Any) -> list[str]:
    return list(form.parse(list(messages), Options()).warnings)


def sent(form: Format, messages: Sequence[Json], profile: Profile) -> list[Json] | str:
    """What a server of this profile gets, or why it gets nothing."""
    out, violations = write_openai_messages(decoded(form, *messages), profile, form.text_joiner)
    return violations[0].message if violations else out


def sent_repaired(form: Format, messages: Sequence[Json], profile: Profile) -> list[Json] | None:
    """What the gateway sends such a server, which repairs calls and results that are not pairs; None if nothing."""
    repaired, _ = repair_calls(ChatRequest("m", decoded(form, *messages)))
    out, violations = write_openai_messages(repaired.messages, profile, form.text_joiner)
    return None if violations else out


def msg(content: Any, role: str = "assistant", **fields: Any) -> Json:
    return {"name": "Friday", "role": role, "content": content, **fields}
