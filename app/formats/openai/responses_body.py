"""A body of the Responses API that was sent to `POST /v1/chat/completions`.

Cursor's agent does so with a base URL of the user's, and reads the answer as a chat completion (BerriAI/litellm#34029,
Soju06/codex-lb#833, router-for-me/CLIProxyAPI#658).
"""

from typing import Any

from msgspec.structs import replace

from app.errors import InvalidInput, Violation
from app.formats.base import Options
from app.formats.body import NOTHING_STORED, ParsedRequest, RejectedRequest
from app.formats.openai import OPENAI
from app.formats.request_limits import RequestLimits
from app.formats.responses.body import parse_body

_STORED = ("previous_response_id", "conversation", "background")
_NOT_READ = ("messages", "stream_options")


def is_responses_body(body: dict[str, Any]) -> bool:
    return bool(body.get("input")) and not body.get("messages")


def parse_responses_body(body: dict[str, Any], limits: RequestLimits) -> ParsedRequest:
    """Return the request, whose reply is a chat completion. Raises ParleyError."""
    stored = [name for name in _STORED if body.get(name)]
    if stored:
        text = "is a field of POST /v1/responses: this path answers with chat completions, which are not stored"
        raise InvalidInput([Violation(name, text) for name in stored])
    given = {name: value for name, value in body.items() if name not in _NOT_READ}
    parsed = parse_body(given, limits, NOTHING_STORED, None)
    if isinstance(parsed, RejectedRequest):
        raise parsed.error
    options = body.get("stream_options")
    has_usage = isinstance(options, dict) and options.get("include_usage") is True
    text = "the body is one of the Responses API: it was read as such and is answered with a chat completion"
    return ParsedRequest(
        replace(parsed.settings, include_usage=has_usage),
        OPENAI,
        replace(parsed.request, source=None),
        (text, *parsed.warnings),
        Options(logprobs=parsed.options.logprobs, custom_tools=parsed.options.responses.custom),
        parsed.repairs,
    )
