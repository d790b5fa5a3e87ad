"""A logged request in the forms of other programs. These leave the operator's hands, so personal data is removed, also
where the log keeps it."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from app import __version__
from app.observe.request_log.entry import Body, BodyKind, LoggedRequest
from app.observe.request_log.redaction import (
    Find,
    is_stream,
    join_parts,
    redact_figures,
    redact_stream,
    redact_text,
    redact_whole,
)

Json: TypeAlias = dict[str, Any]
REPORT_VERSION = 1


def redact_entry(entry: LoggedRequest, find: Find) -> LoggedRequest:
    """Return an entry without what is found in its bodies, its headers and its figures."""
    bodies = tuple([_redact_body(body, find) for body in entry.bodies])
    return replace(entry, figures=redact_figures(entry.figures, find), bodies=bodies)


def _redact_body(body: Body, find: Find) -> Body:
    facts = replace(body.facts, headers=tuple([(name, redact_text(value, find)) for name, value in body.facts.headers]))
    if is_stream(body.data):
        data, parts = redact_stream(body.data, facts.parts, find)
        return Body(replace(facts, parts=parts), data)
    data = redact_whole(body.data, find)
    return Body(facts if data == body.data else replace(facts, parts=join_parts(facts.parts, data)), data)


def write_report(entry: LoggedRequest, models: Mapping[str, Any]) -> Json:
    """Return what `parley replay` reads. `models` are the settings of the models that were asked, without addresses."""
    figures: Json = msgspec.to_builtins(entry.figures)
    for name in ("key", "team", "owner", "user", "bodies", "content"):
        del figures[name]
    return {
        "parley_report": REPORT_VERSION,
        "parley": __version__,
        "figures": figures,
        **models,
        "client": {"request": _write_one(entry, "client_request"), "reply": _write_one(entry, "client_reply")},
        "exchanges": [_write_exchange(sent, got) for sent, got in pair_exchanges(entry)],
    }


def pair_exchanges(entry: LoggedRequest) -> Iterator[tuple[Body, Body | None]]:
    """Yield each request to a model server and its response, in the order in which they were sent."""
    replies = {body.facts.exchange: body for body in entry.find_bodies("upstream_reply")}
    for body in entry.find_bodies("upstream_request"):
        yield body, replies.get(body.facts.exchange)


def _write_one(entry: LoggedRequest, kind: BodyKind) -> Json | None:
    return next((_write_message(body) for body in entry.find_bodies(kind)), None)


def _write_exchange(sent: Body, got: Body | None) -> Json:
    return {
        "upstream": sent.facts.upstream,
        "path": sent.facts.path,
        "request": _write_message(sent),
        "reply": None if got is None or not got.facts.status else _write_message(got),
    }


def _write_message(body: Body) -> Json:
    facts = body.facts
    message: Json = {"headers": [list(line) for line in facts.headers], "size": facts.size, "is_cut": facts.is_cut}
    if facts.kind.endswith("request"):
        return {"path": facts.path, **message, "text": _decode(body.data)}
    reads, place = [], 0
    for milliseconds, size in facts.parts:
        reads.append([milliseconds, _decode(body.data[place : place + size])])
        place += size
    return {"status": facts.status, **message, "end": facts.end, "reads": reads}


def _decode(data: bytes) -> str:
    """Write text in UTF-8. Other bytes, also those of a character that two reads share, are half surrogate pairs."""
    return data.decode("utf-8", "surrogateescape")


def encode_export(value: Any) -> bytes:
    """Write JSON in ASCII: what is no text in UTF-8 stays readable for `json`."""
    return json.dumps(value, indent=1).encode("ascii")


# curl.


def write_curl(entry: LoggedRequest) -> str:
    """Return a command that sends the request again."""
    body = next(iter(entry.find_bodies("client_request")), None)
    path, text = ("/", "") if body is None else (body.facts.path, body.data.decode("utf-8", "replace"))
    lines = [
        f"curl -N http://127.0.0.1:8000{shlex.quote(path)}",
        "-H 'content-type: application/json'",
        '-H "authorization: Bearer $PARLEY_API_KEY"',
        f"--data-raw {shlex.quote(text)}",
    ]
    return " \\\n  ".join(lines) + "\n"


# HAR 1.2 (http://www.softwareishard.com/blog/har-12-spec/).


def write_har(entry: LoggedRequest) -> Json:
    """Return the request of the client and those to model servers. The hosts have names, not addresses."""
    pairs = [
        (body, next(iter(entry.find_bodies("client_reply")), None)) for body in entry.find_bodies("client_request")
    ]
    written = [_write_har_entry(entry, sent, got) for sent, got in (*pairs, *pair_exchanges(entry))]
    return {"log": {"version": "1.2", "creator": {"name": "Parley", "version": __version__}, "entries": written}}


def _write_har_entry(entry: LoggedRequest, sent: Body, got: Body | None) -> Json:
    parts = () if got is None else got.facts.parts
    first, last = (parts[0][0], parts[-1][0]) if parts else (0.0, 0.0)
    host = sent.facts.upstream or "parley"
    return {
        "startedDateTime": datetime.fromtimestamp(entry.figures.started_at, UTC).isoformat(),
        "time": last,
        "request": {
            "method": "POST",
            "url": f"http://{host.replace('/', '-')}.invalid{sent.facts.path}",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _write_har_headers(sent),
            "queryString": [],
            "postData": {"mimeType": "application/json", "text": sent.data.decode("utf-8", "replace")},
            "headersSize": -1,
            "bodySize": sent.facts.size,
        },
        "response": _write_har_response(got),
        "cache": {},
        "timings": {"send": 0, "wait": first, "receive": last - first},
    }


def _write_har_response(got: Body | None) -> Json:
    headers = [] if got is None else _write_har_headers(got)
    kind = next((line["value"] for line in headers if line["name"] == "content-type"), "")
    return {
        "status": 0 if got is None else got.facts.status,
        "statusText": "",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": headers,
        "content": {
            "size": 0 if got is None else got.facts.size,
            "mimeType": kind,
            "text": "" if got is None else got.data.decode("utf-8", "replace"),
        },
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1 if got is None else got.facts.size,
    }


def _write_har_headers(body: Body) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in body.facts.headers]


# OpenTelemetry.


def write_otel(entry: LoggedRequest, input_messages: Sequence[Any], output_messages: Sequence[Any]) -> Json:
    """Return the event of the conventions for generative AI, which are in development:
    https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/"""
    figures = entry.figures
    attributes: Json = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": figures.requested_model,
        "gen_ai.response.model": figures.fallback_model or figures.model,
        "gen_ai.input.messages": list(input_messages),
        "gen_ai.output.messages": list(output_messages),
        "error.type": figures.error,
    }
    if figures.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = [figures.finish_reason]
    if figures.tokens is not None:
        attributes |= {
            "gen_ai.usage.input_tokens": figures.tokens.input,
            "gen_ai.usage.output_tokens": figures.tokens.output,
        }
    return {
        "name": "gen_ai.client.inference.operation.details",
        "timestamp": datetime.fromtimestamp(figures.started_at + figures.seconds, UTC).isoformat(),
        "attributes": {name: value for name, value in attributes.items() if value is not None},
    }
