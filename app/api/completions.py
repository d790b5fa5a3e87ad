"""`POST /v1/chat/completions`: the same journey for clients of OpenAI's SDKs.

What the gateway knows by a name of its own is translated; everything else a caller says is passed on as it is, as
`extra_body` is, except what would need more than one reply or a reply that is not told.
"""

from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from app.api.envelope import Envelope, Limits, Reading, understood
from app.errors import BadRequest, InvalidInput, ParleyError, Violation
from app.formats.openai import OPENAI
from app.formats.violations import violations
from app.params import UNSENT, GenerateCfg

_ENVELOPE = {"model", "messages", "tools", "functions", "stream", "metadata"}
_KNOWN = set(GenerateCfg.model_fields) - UNSENT - {"extra_body"}
_REFUSED = {
    "logprobs": "the gateway does not tell log probabilities",
    "top_logprobs": "the gateway does not tell log probabilities",
    "audio": "the gateway tells replies as text",
    "modalities": "the gateway tells replies as text",
    "prediction": "is not known here",
}
_IGNORED = {"stream_options", "function_call"}


def read_completion(raw: bytes | bytearray, limits: Limits) -> Reading:
    """The request in a body of OpenAI's form. Raises BadRequest, InvalidInput, both in OpenAI's shape."""
    try:
        return understood(_envelope(raw), limits)
    except ParleyError as error:
        error.shape = OPENAI.error
        raise


def _envelope(raw: bytes | bytearray) -> Envelope:
    try:
        body = from_json(bytes(raw))
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be an object")
    refused = [Violation(key, _REFUSED[key]) for key in _REFUSED if body.get(key) not in (None, False, [], ["text"])]
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        refused.append(Violation("stream_options", "must be an object"))
    try:
        envelope = Envelope.model_validate(_translated(body, options if isinstance(options, dict) else {}))
    except ValidationError as error:
        found = violations(error, body)
        refused += (Violation(item.path.removeprefix("generate_cfg."), item.message) for item in found)
    if refused:
        raise InvalidInput(refused)
    return envelope


def _translated(body: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in body.items() if value is not None}
    params = {key: value for key, value in given.items() if key in _KNOWN}
    choice = given.get("function_call")
    if choice is not None and "tool_choice" not in params:
        params["function_choice"] = choice.get("name") if isinstance(choice, dict) else choice
    rest = given.keys() - _ENVELOPE - _KNOWN - _IGNORED - _REFUSED.keys()
    if rest:
        params["extra_body"] = {key: given[key] for key in given if key in rest}
    return {
        **{key: value for key, value in given.items() if key in _ENVELOPE},
        "stream": given.get("stream", False),
        "format": "openai",
        "generate_cfg": params,
        "include_usage": options.get("include_usage") is True,
    }
