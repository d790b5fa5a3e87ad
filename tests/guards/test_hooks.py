"""Guards at the places where a request becomes another one: media that another model describes, reasoning that the
gateway puts back, replies that are checked against a schema, replies with tools."""

import base64
import io
import json
from typing import Any, cast

import httpx
import openpyxl
import pytest
from app.chat.messages import Text
from app.chat.server_tools import ToolAnswer, ToolError
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.guards.model_replies import write_chat
from tests.guards.played_cases import CALL, CHAT, FINE, LS, REJECT, asked, play, sent_texts, user
from tests.guards.random_talk import EMAIL, WORD
from tests.in_process_gateway import ModelServer, Pieces, Running, streamed
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

Json = dict[str, Any]
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
)
MASKED = "[EMAIL_YGDF6NR7]"


class Service(ModelServer):
    """A model server, and a service that refuses what has a word in it."""

    def __init__(self, *replies: list[Json], refused: str = WORD) -> None:
        super().__init__()
        self._replies = list(replies)
        self._refused = refused
        self.asked: list[Json] = []
        self.sent: list[Json] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        body = json.loads(request.content)
        if request.url.host == "house.localhost":
            self.asked.append(body)
            found = [part["id"] for part in body["parts"] if self._refused in part["text"]]
            answer = {**REJECT, "parts": found} if found else {"verdict": "pass"}
            data = Pieces([json.dumps(answer).encode()])
            return httpx.Response(200, stream=data, request=request)
        self.sent.append(body)
        deltas = self._replies.pop(0) if self._replies else [{"content": "Fine."}]
        calls = any("tool_calls" in delta for delta in deltas)
        response = streamed(*write_chat(deltas, "tool_calls" if calls else "stop"))
        return httpx.Response(200, headers=response.headers, stream=response.stream, request=request)


def settings(guards: Json, **more: Any) -> Json:
    return {
        "upstreams": {"s": {"base_url": "http://model.test/v1"}},
        "models": {"m": {"upstreams": ["s"]}},
        "server": {"log_level": "error"},
        "guards": {name: {"url": "http://house.localhost", **row} for name, row in guards.items()},
        "masking": {"key": "0" * 64, "notice": False},
        **more,
    }


@pytest.mark.parametrize("later", [False, True])
def test_an_image_that_is_refused_reaches_no_model_that_would_describe_it(later: bool) -> None:
    models = {
        "m": {"upstreams": ["s"], "describe_media_with": "vl", "profile": {"media": []}},
        "vl": {"upstreams": ["s"], "profile": {"media": ["image"]}},
    }
    service = Service(refused="iVBOR")
    shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}
    messages: list[Json] = [shown]
    if later:
        messages += [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Go on"}]
    with Running(settings({"house": {"images": True}}, models=models), service) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "messages": messages})
    assert answer.status == (200 if later else 400)
    assert "iVBOR" not in json.dumps(service.sent)
    assert [body["model"] for body in service.sent] == (["m"] if later else [])
    if later:
        assert service.sent[0]["messages"][0]["content"] == "[withheld by policy house: zebra]"


def test_an_image_that_passes_is_described_and_the_words_are_looked_at() -> None:
    models = {
        "m": {"upstreams": ["s"], "describe_media_with": "vl", "profile": {"media": []}},
        "vl": {"upstreams": ["s"], "profile": {"media": ["image"]}},
    }
    rows = {"house": {"images": True, "phases": ["request"]}}
    service = Service([{"content": "A blue square."}])
    given = settings(rows, models=models)
    given["guards"]["pii"] = {"detectors": ["email"]}
    given["masking"]["notice"] = True
    shown = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": PIXEL}}, {"type": "text", "text": EMAIL}],
    }
    with Running(given, service) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "messages": [shown]})
    assert answer.status == 200, answer.body
    kinds = [[part["kind"] for part in body["parts"]] for body in service.asked]
    assert kinds == [["image", "text"], ["text"]]
    assert "A blue square." in service.asked[1]["parts"][0]["text"]
    system, message = service.sent[-1]["messages"]
    assert system["content"].count("[EMAIL_ABCDEFGH]") == 1
    assert MASKED in json.dumps(message) and EMAIL not in json.dumps(service.sent)


def history() -> list[Json]:
    call = {**CALL, "id": "call_9fKq2"}
    return [
        {"role": "user", "content": f"Hi, I am {EMAIL}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_9fKq2", "content": "ok"},
    ]


@pytest.mark.parametrize("api", ["service", "detector", "mask"])
def test_reasoning_that_is_put_back_is_shown_to_guards_that_its_reply_had_not(api: str) -> None:
    """The first request is for a model without guards, the second for one with them, of the same server."""
    thought = f"{EMAIL} saw a {WORD}"
    calls = {"tool_calls": [{"index": 0, **CALL, "id": "call_9fKq2"}]}
    service = Service([{"reasoning_content": thought}, calls])
    row = {"upstreams": ["s"], "profile": {"restore_reasoning": True, "replay_blank_reasoning": True}}
    given = settings({"house": {"models": ["m"]}} if api == "service" else {}, models={"m": row, "free": row})
    given["cache"] = {"url": "memory:"}
    if api != "service":
        detectors, action = (["word"], "reject") if api == "detector" else (["email"], "mask")
        given["guards"]["own"] = {"detectors": detectors, "action": action, "models": ["m"]}
        given["masking"]["patterns"] = {"word": WORD}
    messages = history()
    with Running(given, service) as gateway:
        assert gateway.post(CHAT, {"model": "free", "messages": messages[:1], "tools": [LS]}).status == 200
        answer = gateway.post(CHAT, {"model": "m", "messages": messages, "tools": [LS]})
    assert answer.status == 200, answer.body
    sent = service.sent[-1]["messages"][1]["reasoning_content"]
    if api == "mask":
        assert sent == f"{MASKED} saw a {WORD}"
    else:
        assert sent.startswith("[withheld by policy ") and WORD not in sent.replace("zebra]", "")


def test_reasoning_that_is_put_back_and_was_seen_is_not_asked_about_again() -> None:
    calls = {"tool_calls": [{"index": 0, **CALL, "id": "call_9fKq2"}]}
    service = Service([{"reasoning_content": "Hm."}, calls])
    row = {"upstreams": ["s"], "profile": {"restore_reasoning": True, "replay_blank_reasoning": True}}
    with Running(settings({"house": {}}, models={"m": row}, cache={"url": "memory:"}), service) as gateway:
        for messages in (history()[:1], history()):
            assert gateway.post(CHAT, {"model": "m", "messages": messages, "tools": [LS]}).status == 200
    assert service.sent[-1]["messages"][1]["reasoning_content"] == "Hm."
    texts = [part["text"] for body in service.asked for part in body["parts"]]
    assert texts.count("Hm.") == 1


SCHEMA: Json = {
    "type": "json_schema",
    "json_schema": {
        "name": "to",
        "schema": {
            "type": "object",
            "properties": {"to": {"type": "string", "pattern": "^[a-z]+@[a-z.]+$"}},
            "required": ["to"],
        },
    },
}


@pytest.mark.parametrize("check", ["enforce", "warn"])
def test_a_schema_checks_the_text_that_the_client_gets(check: str) -> None:
    service = Service([{"content": f'{{"to": "{MASKED}"}}'}])
    models = {"m": {"upstreams": ["s"], "profile": {"check_output": check}}}
    given = settings({}, models=models)
    given["guards"]["pii"] = {"detectors": ["email"]}
    body = {"model": "m", **user(f"Write to {EMAIL}"), "response_format": SCHEMA}
    with Running(given, service) as gateway:
        answer = gateway.post(CHAT, body)
    assert len(service.sent) == 1
    assert answer.json["choices"][0]["message"]["content"] == f'{{"to": "{EMAIL}"}}'
    assert "not valid" not in json.dumps(answer.json) + answer.headers.get("x-parley-warnings", "")


@pytest.mark.parametrize("check", ["enforce", "warn"])
def test_what_a_check_says_of_a_text_has_its_values_masked(check: str) -> None:
    reply = [{"content": f'{{"to": "<{MASKED}>"}}'}]
    service = Service(reply, [{"content": f'```json\n{{"to": "{MASKED}"}}\n```'}])
    models = {"m": {"upstreams": ["s"], "profile": {"check_output": check}}}
    given = settings({}, models=models)
    given["guards"]["pii"] = {"detectors": ["email"]}
    body = {"model": "m", **user(f"Write to {EMAIL}"), "response_format": SCHEMA}
    with Running(given, service) as gateway:
        answer = gateway.post(CHAT, body)
    assert EMAIL not in json.dumps(service.sent)
    text = answer.json["choices"][0]["message"]["content"]
    if check == "enforce":
        assert text == f'{{"to": "{EMAIL}"}}'
        assert [f"<{MASKED}>" in message["content"] for message in service.sent[1]["messages"][-2:]] == [True, True]
    else:
        assert text == f'{{"to": "<{EMAIL}>"}}'
        assert f"'<{MASKED}>'" in answer.body.decode() or f"<{MASKED}>" in answer.body.decode(), "the warning"
    assert answer.body.decode().count(f"<{EMAIL}>") == (check == "warn")


def test_an_error_about_an_invalid_reply_has_its_values_masked() -> None:
    reply = [{"content": f'{{"to": "<{MASKED}>"}}'}]
    given = settings({}, models={"m": {"upstreams": ["s"], "profile": {"check_output": "enforce"}}})
    given["guards"]["pii"] = {"detectors": ["email"]}
    body = {"model": "m", **user(f"Write to {EMAIL}"), "response_format": SCHEMA}
    with Running(given, Service(reply, reply)) as gateway:
        answer = gateway.post(CHAT, body)
    assert answer.json["error"]["code"] == "output_invalid"
    assert f"<{MASKED}>" in answer.body.decode() and EMAIL not in answer.body.decode()


def test_warnings_of_a_refused_or_replaced_reply_quote_nothing_of_it() -> None:
    body = {**user("Hi"), "response_format": SCHEMA, "stream": True}
    reply = {"chunks": [{"content": '{"to": "zebra"}'}], "finish": "stop"}
    refused = play({"house": {"phases": ["reply"]}}, [body], [reply], default=REJECT)
    new = {"verdict": "replace", "parts": {"output[0]": "A horse."}}
    replaced = play({"house": {"phases": ["reply"]}}, [body], [reply], default=new)
    passed = play({"house": {"phases": ["reply"]}}, [body], [reply])
    assert b"zebra" not in refused.clients[0].answer.body.replace(b"refused this: zebra", b"")
    assert b"zebra" not in replaced.clients[0].answer.body
    assert b"other warnings are left out" in replaced.clients[0].answer.body
    assert b"is not valid" in passed.clients[0].answer.body


@pytest.mark.parametrize("stream", [True, False])
def test_the_error_of_a_tool_that_a_guard_withholds_quotes_nothing_of_it(stream: bool) -> None:
    text = "Error: the quota is used up"
    error = ToolAnswer((Text(text),), ToolError("protocol", -32000, "the quota is used up"), "error", len(text))
    call = {"index": 0, "id": "c1", "function": {"name": "wx-now", "arguments": "{}"}}
    server = Service([{"tool_calls": [call]}], refused="quota")
    with Running(settings({"house": {"phases": ["request"]}}), server) as gateway:
        gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "now")], {"wx-now": error}))
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Weather?", "stream": stream})
    assert b"mcp_protocol_error" in answer.body and b"withheld by policy house" in answer.body
    assert b"quota" not in answer.body


@pytest.mark.parametrize("remember", [3600, 0])
def test_a_reply_with_tools_is_asked_about_once_for_each_turn(remember: int) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "wx-now", "arguments": "{}"}}
    service = Service([{"tool_calls": [call]}])
    rows = {"house": {"phases": ["request"], "remember_seconds": remember}}
    with Running(settings(rows), service) as gateway:
        gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "now")], {"wx-now": text_answer("sunny")}))
        assert gateway.post(CHAT, {"model": "m", **user("Hi")}).status == 200
    of_model = [body for body in service.asked if body["parts"][0]["id"] != "messages[0].content[0].content[0]"]
    assert [body["turn"] for body in of_model] == ([1, 2] if not remember else [1, 2])[: len(of_model)]
    first = [body for body in service.asked if [part["text"] for part in body["parts"]] == ["Hi"]]
    assert len(first) == 1


def test_a_service_sees_the_tools_of_the_gateway_as_well() -> None:
    service = Service()
    with Running(settings({"house": {"tools": True, "phases": ["request"]}}), service) as gateway:
        gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "now")]))
        assert gateway.post(CHAT, {"model": "m", **user("Hi")}).status == 200
    assert "wx-now" in json.dumps(service.asked)


def test_each_check_has_a_span_and_the_service_its_id() -> None:
    exporter = InMemorySpanExporter()
    given = settings({"house": {"on_failure": "pass"}}, tracing={"enabled": True})

    class Odd(Service):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.host == "house.localhost":
                traces.append(request.headers["traceparent"])
                body = json.loads(await request.aread())
                data = {"verdict": "pass" if body["phase"] == "request" else "maybe"}
                return httpx.Response(200, stream=Pieces([json.dumps(data).encode()]), request=request)
            return await super().handle_async_request(request)

    traces: list[str] = []
    with Running(given, Odd(), make_span_exporter=lambda: exporter) as gateway:
        assert gateway.post(CHAT, {"model": "m", **user("Hi")}).status == 200
    spans = [span for span in exporter.get_finished_spans() if span.name == "guard house"]
    spans.sort(key=lambda span: span.start_time or 0)
    assert [dict(span.attributes or {})["parley.guard.phase"] for span in spans] == ["request", "reply"]
    assert [span.kind for span in spans] == [SpanKind.INTERNAL] * 2
    assert [span.status.status_code for span in spans] == [StatusCode.UNSET, StatusCode.ERROR]
    ids = [f"{span.context.span_id:016x}" for span in spans if span.context is not None]
    assert [trace.split("-")[2] for trace in traces] == ids


def test_the_log_says_which_part_was_refused_and_never_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    rejects: list[Json] = [{"if": "zebra", "body": {**REJECT, "reason": "of zebras", "category": "animals"}}]
    guards: Json = {"house": {}}
    play(guards, [user("fine", "a zebra")], answers=rejects, server={"log_level": "debug"})
    reply = {"chunks": [{"content": "A zebra."}], "finish": "stop"}
    play(guards, [user("fine")], [reply], answers=rejects, server={"log_level": "debug"})
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    lines = [row["message"] for row in rows if row["level"] == "info"]
    assert any("has refused it for messages[0].content[0], category animals" in line for line in lines)
    assert any("has refused the reply for output[0], category animals" in line for line in lines)
    assert not any("of zebras" in line for line in lines)
    assert any("of zebras" in row["message"] for row in rows if row["level"] == "debug")


def test_limits_are_given_back_if_a_guard_refuses() -> None:
    rejects: list[Json] = [{"if": "zebra", "body": REJECT}]
    body = {**user("a zebra " + "x" * 2000), "max_tokens": 400}
    run = play(
        {"house": {}},
        [body, {**user("Hi"), "max_tokens": 400}],
        [FINE],
        answers=rejects,
        limits={"tokens_per_minute": 1000},
    )
    assert [client.answer.status for client in run.clients] == [400, 200]
    assert sent_texts(run) == ["Hi"]


def test_presidio_is_asked_about_names_of_files() -> None:
    rows = {"names": {"url": "<webhook:house>", "api": "presidio"}}
    data = "data:text/plain;base64,aGk="
    file = {"type": "file", "file": {"filename": "Ann.txt", "file_data": data}}
    span = {"start": 0, "end": 3, "entity_type": "PERSON", "score": 0.9}
    body = {"messages": [{"role": "user", "content": [file]}], "user": "Ann"}
    run = play(rows, [body], answers=[{"if": "Ann", "body": [span]}, {"if": "", "body": []}])
    assert "Ann.txt" in {one["text"] for one in asked(run)}
    assert run.clients[0].answer.status == 200
    assert "Ann" not in json.dumps(run.played.sent)


def write_workbook(sheet: str) -> str:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.title = sheet
    page["A1"] = "4711"
    data = io.BytesIO()
    book.save(data)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return f"data:{kind};base64,{base64.b64encode(data.getvalue()).decode()}"


def test_names_of_sheets_are_masked_and_judged() -> None:
    rows = {"pii": {"detectors": ["email"]}, "house": {"phases": ["request"]}}
    rejects: list[Json] = [{"if": "zebra", "body": REJECT}]
    bodies = []
    for sheet in (EMAIL, "a zebra"):
        file = {"type": "file", "file": {"filename": "a.xlsx", "file_data": write_workbook(sheet)}}
        bodies.append({"messages": [{"role": "user", "content": [file]}]})
    run = play(rows, bodies, [FINE], answers=rejects)
    assert [client.answer.status for client in run.clients] == [200, 400]
    text = json.dumps(run.played.sent)
    assert "4711" in text and MASKED in text and EMAIL not in text


@pytest.mark.parametrize("way", ["generateContent", "streamGenerateContent?alt=sse"])
def test_a_refused_reply_ends_for_gemini_with_prohibited_content(way: str) -> None:
    service = Service([{"content": f"a {WORD}"}])
    with Running(settings({"house": {}}), service) as gateway:
        answer = gateway.post(f"/v1beta/models/m:{way}", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
    text = answer.body.decode()
    assert answer.status == 200 and '"finishReason":"PROHIBITED_CONTENT"' in text
    assert text.count("The policy house refused this: zebra.") == 2


@pytest.mark.parametrize("stream", [True, False])
def test_a_summary_of_the_conversation_is_restored_and_masked_again(stream: bool) -> None:
    server = Service([{"content": f"Mail {MASKED}."}], [{"content": f"To {MASKED}."}])
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 1000}}
    messages: list[Json] = [
        {"role": "user", "content": f"I am {EMAIL}. " + "old " * 2000},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "new"},
    ]
    body = {"model": "m", "max_tokens": 50, "stream": stream, "context_management": {"edits": [edit]}}
    with Running(settings({}) | {"guards": {"pii": {"detectors": ["email"]}}}, server) as gateway:
        answer = gateway.post("/v1/messages", {**body, "messages": messages})
        summary = {"type": "compaction", "content": f"Mail {EMAIL}."}
        later = [{"role": "assistant", "content": [summary]}, {"role": "user", "content": "go on"}]
        gateway.post("/v1/messages", {**body, "messages": later})
    shown = answer.body.decode()
    assert f"Mail {EMAIL}." in shown and "EMAIL_" not in shown
    assert len(server.sent) == 3
    assert not any(EMAIL in json.dumps(sent) for sent in server.sent)
    assert f"Mail {MASKED}." in json.dumps(server.sent[2])


def test_a_summary_that_a_guard_refuses_is_none() -> None:
    server = Service([{"content": f"A {WORD}."}], [{"content": "Fine."}])
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 1000}}
    texts = (("user", "old " * 2000), ("assistant", "ok"), ("user", "new"))
    messages = [{"role": role, "content": text} for role, text in texts]
    body = {"model": "m", "max_tokens": 50, "messages": messages, "context_management": {"edits": [edit]}}
    with Running(settings({"house": {"phases": ["reply"]}}), server) as gateway:
        answer = gateway.post("/v1/messages", body)
    assert [block["type"] for block in answer.json["content"]] == ["text"]
    assert WORD not in answer.body.decode().replace("refused this: zebra", "")
    assert "was not summarized" in answer.headers["x-parley-warnings"]
