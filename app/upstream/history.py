"""A conversation into the OpenAI message list that a server of a profile takes."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import Message
from app.errors import Violation
from app.grouping import groups
from app.profiles import Profile
from app.upstream import media, render


def openai_messages(
    messages: Sequence[Message], profile: Profile, joiner: str
) -> tuple[list[dict[str, Any]], list[Violation]]:
    """(messages to send, violations): every orphan, duplicate and unanswered call, and media that cannot be sent.

    The messages are usable only where there are no violations.
    """
    grouped, violations = groups(messages)
    violations = sorted(violations + media.violations(messages, profile), key=lambda found: _place(found.path))
    if violations:
        return [], violations
    found = [item for one in grouped for item in render.group(one, profile, joiner)]
    if messages and not found:
        return [], [Violation("messages", "nothing in this list is said to the model")]
    return found, []


def _place(path: str) -> tuple[int, str]:
    digits = path.partition("[")[2].partition("]")[0]
    return (int(digits) if digits.isdigit() else 0, path)
