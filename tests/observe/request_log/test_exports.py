"""A logged request in other programs' forms."""

import json
import shlex

from app.observe.request_log.entry import Body, BodyFacts, Figures, LoggedRequest, LoggedTokens
from app.observe.request_log.exports import encode_export, redact_entry, write_curl, write_har, write_otel, write_report
from app.observe.request_log.redaction import make_finder
from msgspec.structs import replace

FIND = make_finder([], personal=True)
FIGURES = Figures(
    "req-1",
    "completions",
    1_795_900_000.5,
    1.5,
    200,
    key="alice",
    team="t",
    owner="o",
    model="large",
    requested_model="l",
    finish_reason="stop",
    tokens=LoggedTokens(3, 2, 0, 0, 0, False),
    warnings=("about bob@example.com",),
    user="carol",
)
FRAME = 'data: {"content":"é bob@example.com"}\n\n'.encode()
ENTRY = LoggedRequest(
    7,
    FIGURES,
    (
        Body(
            BodyFacts("client_request", -1, 40, path="/v1/chat/completions", headers=(("user-agent", "it's me"),)),
            b'{"text": "it\'s bob@example.com"}',
        ),
        Body(BodyFacts("client_reply", -1, 5, status=200, parts=((3.0, 5),), end="end"), b"hello"),
        Body(BodyFacts("upstream_request", 0, 2, upstream="a/b", path="/chat/completions"), b"{}"),
        Body(BodyFacts("upstream_reply", 0, 0, upstream="a/b", path="/chat/completions"), b""),
        Body(BodyFacts("upstream_request", 1, 2, upstream="c", path="/chat/completions"), b"{}"),
        Body(
            BodyFacts(
                *("upstream_reply", 1, len(FRAME)),
                status=200,
                upstream="c",
                headers=(("content-type", "text/event-stream"),),
                parts=((1.0, 19), (2.0, len(FRAME) - 19)),
            ),
            FRAME,
        ),
    ),
)
REDACTED = redact_entry(ENTRY, FIND)


def test_all_of_an_entry_is_redacted() -> None:
    assert b"bob" not in b"".join(body.data for body in REDACTED.bodies)
    assert REDACTED.figures.warnings == ("about [EMAIL]",)
    named = replace(ENTRY, figures=replace(FIGURES, requested_model="bob@example.com"))
    assert redact_entry(named, FIND).figures.requested_model == "[EMAIL]"
    assert sum(size for _, size in REDACTED.bodies[5].facts.parts) == len(REDACTED.bodies[5].data)
    assert redact_entry(REDACTED, FIND) == REDACTED


def test_a_report_names_no_caller_and_has_the_reads_of_each_model_server() -> None:
    report = json.loads(encode_export(write_report(ENTRY, {"models": {"large": {}}})))
    assert report["figures"].keys().isdisjoint({"key", "team", "owner"})
    assert report["models"] == {"large": {}}
    assert report["client"]["request"]["path"] == "/v1/chat/completions"
    assert report["client"]["reply"]["reads"] == [[3.0, "hello"]]
    first, second = report["exchanges"]
    assert first["reply"] is None
    assert "".join(text for _, text in second["reply"]["reads"]).encode("utf-8", "surrogateescape") == FRAME


def test_a_command_sends_the_request_again() -> None:
    words = shlex.split(write_curl(REDACTED).replace("\\\n", ""))
    assert words[0] == "curl"
    assert "http://127.0.0.1:8000/v1/chat/completions" in words
    assert words[-1] == '{"text": "it\'s [EMAIL]"}'
    assert "/" in write_curl(LoggedRequest(1, FIGURES))


def test_har_has_the_client_and_each_model_server() -> None:
    log = write_har(REDACTED)["log"]
    assert log["version"] == "1.2"
    assert [(one["request"]["url"], one["response"]["status"]) for one in log["entries"]] == [
        ("http://parley.invalid/v1/chat/completions", 200),
        ("http://a-b.invalid/chat/completions", 0),
        ("http://c.invalid/chat/completions", 200),
    ]
    last = log["entries"][2]
    assert last["timings"] == {"send": 0, "wait": 1.0, "receive": 1.0}
    assert last["response"]["content"]["mimeType"] == "text/event-stream"
    assert "[EMAIL]" in last["response"]["content"]["text"]


def test_har_of_an_entry_without_a_response() -> None:
    (only,) = write_har(LoggedRequest(1, FIGURES, ENTRY.bodies[:1]))["log"]["entries"]
    assert (only["response"]["status"], only["response"]["bodySize"]) == (0, -1)


def test_otel_has_the_event_of_the_conventions() -> None:
    event = write_otel(REDACTED, [{"role": "user"}], [{"role": "assistant"}])
    assert event["name"] == "gen_ai.client.inference.operation.details"
    assert event["timestamp"].startswith("2026-")
    assert event["attributes"] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "l",
        "gen_ai.response.model": "large",
        "gen_ai.input.messages": [{"role": "user"}],
        "gen_ai.output.messages": [{"role": "assistant"}],
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
    }


def test_otel_of_a_failure_has_its_error_and_no_tokens() -> None:
    failed = Figures("r", "chat", 0.0, 1.0, 500, error="timeout")
    assert write_otel(LoggedRequest(1, failed), [], [])["attributes"]["error.type"] == "timeout"
