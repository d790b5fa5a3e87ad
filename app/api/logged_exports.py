"""Write a logged request in the form that is asked for, with the settings of its models."""

from functools import partial
from typing import Any, Literal, TypeAlias, assert_never

import msgspec

from app.api.live_configuration import request_limits
from app.chat.messages import Message
from app.config.request_log import describe_models, make_export_finder
from app.config.settings import Settings
from app.errors import ParleyError
from app.formats.anthropic.body import parse_messages_body
from app.formats.body import ParsedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.gemini.body import GenerateTarget, parse_generate_body
from app.formats.openai.body import parse_completions_body
from app.formats.responses.body import parse_responses_body
from app.observe.content import CapturedContent
from app.observe.request_log.entry import LoggedRequest
from app.observe.request_log.exports import (
    encode_export,
    redact_entry,
    write_curl,
    write_har,
    write_otel,
    write_report,
)
from app.upstream.api import find_api

ExportForm: TypeAlias = Literal["report", "har", "curl", "otel"]
_PARSERS: dict[str, Any] = {
    "gemini": partial(parse_generate_body, target=GenerateTarget("")),
    "chat": parse_chat_body,
    "completions": parse_completions_body,
    "messages": parse_messages_body,
    "responses": parse_responses_body,
}


def export(entry: LoggedRequest, form: ExportForm, settings: Settings) -> bytes:
    """Return JSON, or a command."""
    entry = redact_entry(entry, make_export_finder(settings))
    match form:
        case "report":
            return encode_export(write_report(entry, describe_models(settings, entry.figures)))
        case "har":
            return encode_export(write_har(entry))
        case "curl":
            return write_curl(entry).encode("utf-8", "replace")
        case "otel":
            return encode_export(write_otel(entry, _read_input(entry, settings), _read_output(entry, settings)))
        case _:
            assert_never(form)


def _read_input(entry: LoggedRequest, settings: Settings) -> Any:
    """Return the messages of the request in the form of the conventions; none if its body is not whole."""
    messages: tuple[Message, ...] | list[Message] = ()
    parse = _PARSERS.get(entry.figures.endpoint)
    for body in entry.find_bodies("client_request"):
        parsed = None if parse is None else parse(body.data, request_limits(settings.server), None)
        if isinstance(parsed, ParsedRequest):
            messages = parsed.request.messages
    return msgspec.json.decode(CapturedContent(messages).write_input())


def _read_output(entry: LoggedRequest, settings: Settings) -> Any:
    """Return the messages of the reply, from what the model server sent last."""
    content = CapturedContent(())
    bodies = [body for body in entry.find_bodies("upstream_reply") if body.facts.status == 200]
    row = settings.upstreams.get(bodies[-1].facts.upstream) if bodies else None
    if row is not None:
        reader = find_api(row.api).make_reader(entry.figures.request_id)
        try:
            events = reader.assembler.feed(reader.events.feed(bodies[-1].data))
            content.feed([*events, *reader.assembler.close(reader.events.junk, None)])
        except (ParleyError, ValueError):
            pass  # what was read until then
    return msgspec.json.decode(content.write_output(entry.figures.finish_reason)) if content.has_reply else []
