"""Which of the replies that we know are to be kept, by what an independent reader says of them."""

import json

from tests.conformance.cases import Json
from tests.streams.reader import Expected

FAILS_LATE = {"X-047", "X-084", "Q-321", "Q-518"}
"""Cases with an error behind the finish reason: the reply is sent with a warning, and not stored."""
LOSES_CALLS = {"Q-065", "X-243"}
"""Cases whose server says that it has called and sends no call: the reply has a warning, and is not stored."""


def case_is_kept(case: Json) -> bool:
    want = case["expect"]
    calls = [message["function_call"]["arguments"] for message in want["messages"] if "function_call" in message]
    texts = [message.get("content") or message.get("reasoning_content") or "" for message in want["messages"]]
    has_output = bool(calls) or any(text.strip() for text in texts)
    return _ends_well(want["finish_reason"], calls) and has_output and case["id"] not in FAILS_LATE | LOSES_CALLS


def recording_is_kept(expected: Expected) -> bool:
    has_output = bool(expected.reasoning.strip() or expected.content.strip() or expected.calls)
    calls = [arguments for _, arguments in expected.calls]
    return not expected.error and has_output and _ends_well(expected.finish_reason or "stop", calls)


def _ends_well(finish_reason: str, calls: list[str]) -> bool:
    return finish_reason in ("stop", "tool_calls") and all(map(_is_object, calls))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
