"""Requests that AutoGen's model clients wrote, and what ours send for the same messages."""

from typing import Any

from app.chat.messages import Message
from app.errors import InvalidInput
from app.openai_messages.messages import write_openai_messages
from app.profiles import Profile

from tests.formats.autogen.recorded_cases import cases

REQUESTS = cases("autogen/requests")

AGENTS = cases("autogen/agent")

PROFILE = Profile(names="user")

PROFILES = {
    "r08_image_without_vision": PROFILE.model_copy(update={"media": ()}),
    "r16_no_name_field": Profile(),
    "r20_empty_thought_with_tools": PROFILE.model_copy(update={"empty_content": "empty"}),
}
"""What AutoGen's client has as options is a model's profile here."""


def sent(messages: tuple[Message, ...], profile: Profile = PROFILE) -> list[Any]:
    out, violations = write_openai_messages(messages, profile, "\n")
    if violations:
        raise InvalidInput(violations)
    return out


TRANSCRIPTS = [name for name in AGENTS if "model_context_after" in AGENTS[name]]
