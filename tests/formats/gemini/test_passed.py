"""Which bodies that the gateway cannot read are for Google's servers."""

import base64
from typing import Any

from app.chat.messages import RequestPaths
from app.errors import BadRequest
from app.formats.gemini.passed import make_passed_request
from app.formats.gemini.signatures import write_signature
from app.formats.request_limits import RequestLimits
from app.formats.seal import Seal

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=3, max_content_items=9, max_functions=2, max_nesting=10)
ODD: Json = {"role": "robot", "parts": []}


def make(body: Json) -> Json | None:
    request = make_passed_request(body, BadRequest("unread"), LIMITS, "m", False, RequestPaths())
    return None if request is None or request.passed is None else dict(request.passed.body)


def test_a_body_is_passed_in_one_spelling_without_its_model() -> None:
    body = {"model": "models/m", "contents": [ODD], "cached_content": "c", "generation_config": {"top_k": 1}}
    assert make(body) == {"contents": [ODD], "cachedContent": "c", "generationConfig": {"topK": 1}}


@each_case(
    "body",
    [
        {},
        {"contents": []},
        {"contents": ["Q"]},
        {"contents": [ODD] * 4},
        {"contents": [ODD], "tools": [{"functionDeclarations": [{}] * 3}]},
        {"contents": [ODD], "generationConfig": 5},
        {"contents": [ODD], "generationConfig": {"maxOutputTokens": 0}},
        {"contents": [ODD], "number": 2**70},
    ],
)
def test_what_no_server_could_read_is_not_passed(body: Json) -> None:
    assert make(body) is None


def test_a_seal_is_opened_or_left_out() -> None:
    google = base64.b64encode(b"s1").decode()
    sealed = write_signature(Seal("hm", calls={"a": {"google": {"thought_signature": google}}}))
    parts = [{"text": "A", "thoughtSignature": sealed}, {"text": "B", "thoughtSignature": write_signature(Seal("hm"))}]
    body = make({"contents": [ODD, {"role": "model", "parts": parts}]})
    assert body is not None
    assert body["contents"][1]["parts"] == [{"text": "A", "thoughtSignature": google}, {"text": "B"}]
