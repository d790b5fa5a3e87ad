"""The body and the answer of `POST /v1/responses/compact`: a conversation becomes its users' words and one summary.

The body becomes that of `POST /v1/responses` with a `compaction_trigger` behind its items, without tools.
https://platform.openai.com/docs/api-reference/responses/compact
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.events import Event, Passed
from app.errors import ParleyError
from app.formats.base import ReplyInfo, ReplyMode
from app.formats.body import NOTHING_STORED, RejectedRequest, StoredItems, UnresolvedRequest, find_user
from app.formats.json_object import parse_object
from app.formats.request_limits import RequestLimits, limit_warnings
from app.formats.request_memory import CallerMemory
from app.formats.responses import RESPONSES
from app.formats.responses.body import ResponsesRequest, parse_body
from app.formats.responses.given_items import find_conversation, find_references
from app.formats.responses.passed import make_passed_body
from app.formats.responses.response import make_item_id
from app.formats.responses.stream import ResponseEncoder
from app.formats.responses.whole_summary import WholeSummary
from app.formats.sse import encode_json

Json = dict[str, Any]

_TRIGGER: Json = {"type": "compaction_trigger"}
_WITHOUT_EFFECT = frozenset(("stream", "store", "background"))
_BYTES_PER_TOKEN = 4
_STREAMED = "stream: a compaction is never streamed, so it is answered as a whole"

Compacting = ResponsesRequest | RejectedRequest | UnresolvedRequest[ResponsesRequest]


def parse_compact_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None, *, user_tokens: int
) -> Compacting:
    """Parse a request. The answer repeats the newest words of users, of about `user_tokens` tokens."""
    try:
        body = parse_object(raw, memory)
    except ParleyError as error:
        return RejectedRequest(error, RESPONSES.error)

    def resolve(stored: StoredItems) -> ResponsesRequest | RejectedRequest:
        parsed = parse_body(_add_trigger(body), limits, stored, None)
        if isinstance(parsed, RejectedRequest):
            return RejectedRequest(parsed.error, parsed.write_error)
        return _make_request(parsed, body, user_tokens)

    previous, items = body.get("previous_response_id"), tuple(find_references(body.get("input")))
    conversation = find_conversation(body)
    if isinstance(previous, str) or items or conversation is not None:
        response_id = previous if isinstance(previous, str) else None
        return UnresolvedRequest(response_id, items, resolve, conversation, find_user(body), body.get("metadata"))
    return resolve(NOTHING_STORED)


def _add_trigger(body: Json) -> Json:
    """Return the body of a request for the summary. An `input` that is neither a text nor a list is refused later."""
    given = body.get("input")
    if isinstance(given, str) and given:
        given = [{"type": "message", "role": "user", "content": given}]
    elif given is None or given == "":
        given = []
    if isinstance(given, list) and (not given or given[-1] != _TRIGGER):
        given = [*given, _TRIGGER]
    kept = {name: value for name, value in body.items() if name not in _WITHOUT_EFFECT}
    return {**kept, "input": given, "store": False}


def _make_request(parsed: ResponsesRequest, body: Json, user_tokens: int) -> ResponsesRequest:
    items = parsed.input_items[:-1]
    options = replace(parsed.options.responses, kept=tuple(_select_words(items, user_tokens)))
    fields = {name: value for name, value in body.items() if name not in _WITHOUT_EFFECT}
    warnings = [*parsed.warnings, *([_STREAMED] if body.get("stream") is True else ())]
    return replace(
        parsed,
        reply_format=COMPACTION,
        request=replace(
            parsed.request,
            tools=(),
            params={},
            server_tools=None,
            source=None,
            passed=make_passed_body(fields, items, stream=False),
        ),
        options=replace(parsed.options, responses=options),
        warnings=limit_warnings(warnings),
    )


def _select_words(items: Sequence[Any], user_tokens: int) -> list[Json]:
    """Return the contents of the newest messages of users that fit, in their order."""
    found: list[Json] = []
    left = user_tokens * _BYTES_PER_TOKEN
    for parts in reversed([*_list_words(items)]):
        left -= sum(len(part["text"].encode("utf-8", "surrogatepass")) for part in parts if _is_text(part))
        if left < 0:
            break
        found.append({"content": parts})
    return found[::-1]


def _list_words(items: Sequence[Any]) -> Iterator[list[Any]]:
    for item in items:
        if isinstance(item, dict) and item.get("role") == "user" and item.get("type", "message") == "message":
            content = item.get("content")
            parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
            if isinstance(parts, list) and parts:
                yield parts


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


class CompactionEncoder:
    """Writes `response.compaction`, or the answer of a server that makes its own."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._encoder = ResponseEncoder(info)
        self._answer: bytes | None = None

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        if events and type(events[0]) is Passed:
            self._answer = events[0].data.encode()
            events = events[1:]
        self._encoder.feed(events)
        response = self._encoder.response
        if response is None or response["status"] == "failed":
            return b""
        return self._answer or encode_json(self._make_compaction(response))

    def heartbeat(self) -> bytes:
        return self._encoder.heartbeat()

    def fail(self, error: Json) -> bytes:
        return self._encoder.fail(error)

    def _make_compaction(self, response: Json) -> Json:
        kept = self._info.options.responses.kept
        words = [
            {
                "id": make_item_id(response["id"], at, "msg"),
                "type": "message",
                "status": "completed",
                "role": "user",
                **one,
            }
            for at, one in enumerate(kept)
        ]
        summary = [item for item in response["output"] if item["type"] == "compaction"]
        fields = {"id": response["id"], "object": "response.compaction", "created_at": response["created_at"]}
        more = {"parley": response["parley"]} if "parley" in response else {}
        return {**fields, "output": [*words, *summary], "usage": response["usage"], **more}


def _make_encoder(info: ReplyInfo, mode: ReplyMode) -> CompactionEncoder:
    return CompactionEncoder(info)


def _make_stage(info: ReplyInfo, mode: ReplyMode) -> WholeSummary:
    return WholeSummary()


COMPACTION = replace(RESPONSES, reply_encoder=_make_encoder, reply_stage=_make_stage)
"""`POST /v1/responses/compact`: items as in `RESPONSES`, and another answer."""
