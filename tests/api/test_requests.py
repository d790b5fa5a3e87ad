"""The request log: what it keeps of requests in every format, who may read it, and what it never costs a reply."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access import hash_key
from app.config.settings import Settings

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, STOP, Answer, ModelServer, Running, streamed

ADMIN = {"authorization": "Bearer the-key-of-the-admin"}
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Hi, I am alice@example.com"}]}
BODIES = ["client_request", "client_reply", "upstream_request", "upstream_reply"]


def make_settings(path: Path, **log: Any) -> dict[str, Any]:
    return {
        "upstreams": {"local": {"base_url": "http://model.test/v1", "api_key": "key-of-the-upstream"}},
        "models": {"m": {"upstreams": ["local"], "price": {"input": 2.0, "output": 10.0}}},
        "server": {"admin_key": "the-key-of-the-admin"},
        "request_log": {"keep": "all", "url": f"sqlite:///{path}/requests.db", **log},
    }


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Running]:
    with Running(make_settings(tmp_path), ModelServer()) as gateway:
        yield gateway


def read_list(gateway: Running, query: str = "", headers: dict[str, str] = ADMIN) -> list[Any]:
    answer = gateway.get(f"/v1/requests{query}", headers)
    assert answer.status == 200, answer.body
    rows: list[Any] = answer.json["data"]
    return rows


def read_newest(gateway: Running) -> Any:
    answer = gateway.get(f"/v1/requests/{read_list(gateway)[0]['id']}", ADMIN)
    assert answer.status == 200, answer.body
    return answer.json


def find_texts(entry: Any, kind: str) -> list[str]:
    return [part["text"] for part in entry["parts"] if part["kind"] == kind]


@each_case(
    ("path", "more"),
    [
        ("/v1/chat", {}),
        ("/v1/chat", {"stream": False}),
        ("/v1/chat/completions", {"stream": True}),
        ("/v1/chat/completions", {}),
        ("/v1/messages", {"max_tokens": 10, "stream": True}),
        ("/v1/messages", {"max_tokens": 10}),
        ("/v1/responses", {"stream": True}),
        ("/v1/responses", {}),
    ],
)
def test_each_endpoint_leaves_four_bodies_as_they_were_sent(path: str, more: Any, tmp_path: Path) -> None:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **more}
    if path == "/v1/responses":
        body["input"] = body.pop("messages")
    server = ModelServer()
    with Running(make_settings(tmp_path), server) as gateway:
        answer = gateway.post(path, body, {"user-agent": "tests", "cookie": "c=1"})
        entry = read_newest(gateway)
    assert [part["kind"] for part in entry["parts"]] == BODIES
    asked, got, sent, received = entry["parts"]
    assert json.loads(asked["text"]) == body
    assert got["text"].encode() == answer.body
    assert sent["text"].encode() == server.requests[0].content
    assert received["text"].encode() == HELLO + STOP
    assert asked["headers"] == [["user-agent", "tests"]]
    assert (got["status"], received["status"], received["end"]) == (200, 200, "end")
    assert sum(size for _, size in got["parts"]) == len(answer.body)
    assert [row["outcome"] for row in entry["attempts"]] == ["ok"]
    assert (entry["status"], entry["model"], entry["finish_reason"]) == (200, "m", "stop")
    assert entry["cost"] is not None


def test_reads_of_the_model_server_have_their_times(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path), ModelServer(lambda _: streamed(HELLO, HELLO, STOP))) as gateway:
        gateway.post("/v1/chat/completions", {**QUESTION, "stream": True})
        reads = read_newest(gateway)["parts"][3]["parts"]
    assert [size for _, size in reads] == [len(HELLO), len(HELLO), len(STOP)]
    times = [milliseconds for milliseconds, _ in reads]
    assert times == sorted(times)
    assert times[0] > 0


def test_personal_data_and_keys_are_masked_also_where_deltas_cut_them(tmp_path: Path) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        pieces = ["bob@exam", "ple.com has key-of-the-", "upstream"]
        chunks = [b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % one.encode() for one in pieces]
        return streamed(*chunks, STOP)

    with Running(make_settings(tmp_path), ModelServer(answer)) as gateway:
        for stream in (True, False):
            gateway.post("/v1/chat/completions", {**QUESTION, "stream": stream})
            entry = json.dumps(read_newest(gateway))
            assert "Hi, I am [EMAIL]" in entry
            for text in ("alice", "bob@", "ple.com", "key-of-the", "upstream has"):
                assert text not in entry
    database = b"".join(part.read_bytes() for part in tmp_path.iterdir())
    assert b"alice" not in database


def test_full_content_has_personal_data_and_no_keys(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path, content="full"), ModelServer()) as gateway:
        gateway.post("/v1/chat/completions", {**QUESTION, "user": "key-of-the-upstream"})
        entry = read_newest(gateway)
    assert "alice@example.com" in find_texts(entry, "client_request")[0]
    assert "key-of-the-upstream" not in json.dumps(entry)


@each_case(("settings", "headers"), [({"content": "none"}, {}), ({}, {"cache-control": "no-cache, No-Store"})])
def test_figures_only(settings: Any, headers: Any, tmp_path: Path) -> None:
    with Running(make_settings(tmp_path, **settings), ModelServer()) as gateway:
        gateway.post("/v1/chat/completions", QUESTION, headers)
        entry = read_newest(gateway)
    assert entry["content"] == "none"
    assert [part["text"] for part in entry["parts"]] == [""] * 4
    assert all(part["size"] > 0 for part in entry["parts"])
    assert not entry["parts"][0]["headers"]


def test_a_request_that_is_refused_is_kept_with_its_body_and_the_error(gateway: Running) -> None:
    answer = gateway.post("/v1/messages", {"model": "m", "max_tokens": 3, "messages": [{"role": "nobody"}]})
    entry = read_newest(gateway)
    assert (entry["status"], entry["error"]) == (answer.status, "invalid_request")
    assert find_texts(entry, "client_reply") == [answer.body.decode()]
    assert "nobody" in find_texts(entry, "client_request")[0]


def test_a_body_that_is_no_json_is_masked_too(gateway: Running) -> None:
    gateway.post("/v1/chat", b'{"messages": "alice@example.com')
    assert find_texts(read_newest(gateway), "client_request") == ['{"messages": "[EMAIL]']


def test_each_attempt_has_its_request_and_the_error_of_its_server(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "first.test":
            return httpx.Response(500, json={"error": {"message": "broken for alice@example.com"}})
        return ModelServer.short_reply()

    settings = make_settings(tmp_path) | {
        "upstreams": {"a": {"base_url": "http://first.test/v1"}, "b": {"base_url": "http://second.test/v1"}},
        "models": {"m": {"upstreams": [{"name": "a", "priority": 1}, {"name": "b", "priority": 2}]}},
    }
    with Running(settings, ModelServer(answer)) as gateway:
        assert gateway.post("/v1/chat/completions", QUESTION).status == 200
        entry = read_newest(gateway)
    exchanges = [part for part in entry["parts"] if part["kind"] == "upstream_reply"]
    assert [(one["upstream"], one["status"]) for one in exchanges] == [("a", 500), ("b", 200)]
    assert "broken for [EMAIL]" in exchanges[0]["text"]
    assert [row["upstream"] for row in entry["attempts"]] == ["a", "b"]
    assert entry["attempts"][0]["status"] == 500


def test_what_the_cache_answers_has_no_request_to_a_model_server(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path) | {"cache": {"url": "memory:"}}, ModelServer()) as gateway:
        for _ in range(2):
            gateway.post("/v1/chat", QUESTION)
        entry = read_newest(gateway)
    assert entry["cache"] == "hit"
    assert [part["kind"] for part in entry["parts"]] == BODIES[:2]
    assert entry["parts"][1]["text"]


def test_errors_alone_are_kept_and_replies_by_chance(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path, keep="errors"), ModelServer()) as gateway:
        gateway.post("/v1/chat", QUESTION)
        gateway.post("/v1/chat", {"model": "m"})
        assert [row["status"] for row in read_list(gateway)] == [422]
    with Running(make_settings(tmp_path, keep="sample", sample_ratio=1.0), ModelServer()) as gateway:
        gateway.post("/v1/chat", QUESTION)
        assert [row["status"] for row in read_list(gateway)] == [200, 422]


def test_only_models_and_keys_that_are_named_are_kept(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path, models=["other*"]), ModelServer()) as gateway:
        gateway.post("/v1/chat", QUESTION)
        assert read_list(gateway) == []
    with Running(make_settings(tmp_path, keys=["a*"]), ModelServer()) as gateway:
        gateway.post("/v1/chat", QUESTION)
        assert read_list(gateway) == []


@each_case(
    ("query", "statuses"),
    [
        ("?status=200", [200]),
        ("?failed=true", [422]),
        ("?failed=false", [200]),
        ("?model=m", [200]),
        ("?endpoint=completions", [200]),
        ("?endpoint=chat", [422]),
        ("?error=invalid_request", [422]),
        ("?request_id=mine", [200]),
        ("?cache=bypass", [200]),
        ("?since=1&until=2", []),
        ("?since=1", [422, 200]),
        ("?key=nobody", []),
        ("?limit=1", [422]),
    ],
)
def test_filters_of_the_list(query: str, statuses: list[int], tmp_path: Path) -> None:
    with Running(make_settings(tmp_path), ModelServer()) as gateway:
        if not (tmp_path / "requests.db").exists():
            gateway.post("/v1/chat/completions", QUESTION, {"x-request-id": "mine"})
            gateway.post("/v1/chat", {"model": "m"})
        assert [row["status"] for row in read_list(gateway, query)] == statuses


def test_the_list_goes_on_where_it_ended(gateway: Running) -> None:
    for number in range(5):
        gateway.post("/v1/chat", QUESTION, {"x-request-id": f"n{number}"})
    seen, query = [], "?limit=2"
    while query:
        page = gateway.get(f"/v1/requests{query}", ADMIN).json
        seen += [row["request_id"] for row in page["data"]]
        query = f"?limit=2&before={page['next']}" if page["next"] else ""
    assert seen == ["n4", "n3", "n2", "n1", "n0"]


def test_a_request_is_found_by_its_own_id_and_deleted(gateway: Running, tmp_path: Path) -> None:
    gateway.post("/v1/chat", QUESTION, {"x-request-id": "mine"})
    assert gateway.get("/v1/requests/mine", ADMIN).json["request_id"] == "mine"
    assert gateway.ask("DELETE", "/v1/requests/mine", headers=ADMIN).json == {"deleted": 1}
    assert gateway.get("/v1/requests/mine", ADMIN).status == 404
    assert gateway.ask("DELETE", "/v1/requests/mine", headers=ADMIN).status == 404
    assert b"Hi, I am" not in b"".join(part.read_bytes() for part in tmp_path.iterdir())


def keyed(path: Path, **log: Any) -> dict[str, Any]:
    keys = {name: {"sha256": hash_key(name)} for name in ("alice", "bob")}
    return make_settings(path, **log) | {"keys": keys}


def of(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


def test_keys_read_their_own_requests_only_where_that_is_allowed(tmp_path: Path) -> None:
    with Running(keyed(tmp_path), ModelServer()) as gateway:
        gateway.post("/v1/chat", QUESTION, of("alice"))
        assert gateway.get("/v1/requests", of("alice")).status == 403
    with Running(keyed(tmp_path, callers_read_own=True), ModelServer()) as gateway:
        gateway.post("/v1/chat", QUESTION, of("bob"))
        assert [row["key"] for row in read_list(gateway, "", of("alice"))] == ["alice"]
        assert read_list(gateway, "?key=alice", of("bob")) == []
        assert gateway.get("/v1/requests/2", of("alice")).status == 404
        assert gateway.get("/v1/requests/1", of("alice")).status == 200
        assert gateway.ask("DELETE", "/v1/requests/1", headers=of("alice")).status == 403
        assert [row["key"] for row in read_list(gateway)] == ["bob", "alice"]


def list_audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "parley.audit"]


def test_reading_bodies_is_in_the_audit_log(gateway: Running, caplog: pytest.LogCaptureFixture) -> None:
    gateway.post("/v1/chat", QUESTION)
    read_list(gateway)
    assert not list_audited(caplog)
    read_newest(gateway)
    assert list_audited(caplog) == ["requests.read 1"]


def test_without_a_log_there_is_nothing_to_read(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path, keep="off"), ModelServer()) as gateway:
        gateway.post("/v1/chat", QUESTION)
        answer = gateway.get("/v1/requests", ADMIN)
        assert gateway.context.request_log is None
    assert (answer.status, "request_log.keep" in answer.json["error"]["message"]) == (404, True)
    assert not list(tmp_path.iterdir())


def count_outcomes(gateway: Running) -> dict[str, float]:
    lines = gateway.get("/metrics", ADMIN).body.decode().split("\n")
    found = [re.fullmatch(r'parley_request_log_entries_total\{outcome="(\w+)"\} (.+)', line) for line in lines]
    return {match[1]: float(match[2]) for match in found if match is not None}


def test_a_file_that_cannot_be_written_loses_no_reply_and_is_counted(tmp_path: Path) -> None:
    (tmp_path / "requests.db").mkdir()
    with Running(make_settings(tmp_path), ModelServer()) as gateway:
        for _ in range(3):
            assert gateway.post("/v1/chat", QUESTION).status == 200
        assert gateway.get("/v1/requests", ADMIN).status == 503
        assert count_outcomes(gateway) == {"failed": 3}


def test_what_exceeds_the_queue_is_dropped_and_counted_and_its_memory_given_back(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, queue_bytes=1024 * 1024)
    with Running(settings, ModelServer()) as gateway:
        log = gateway.context.request_log
        assert log is not None
        large = {**QUESTION, "user": "x" * 1_100_000}
        assert gateway.post("/v1/chat/completions", large).status == 200
        entry = read_newest(gateway)
        assert entry["parts"][0]["is_cut"]
        assert entry["parts"][0]["size"] > 1_100_000
        assert entry["parts"][1]["text"]
        assert log.held_bytes == 0


def test_a_request_above_the_bound_of_an_entry_is_cut_at_whole_messages(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"{number} " + "x" * 900} for number in range(40)]
    with Running(make_settings(tmp_path, max_entry_bytes=20_000), ModelServer()) as gateway:
        gateway.post("/v1/chat", {"model": "m", "messages": messages})
        asked, got, sent, _ = read_newest(gateway)["parts"]
    assert asked["is_cut"]
    assert sent["is_cut"]
    assert not got["is_cut"]
    assert asked["text"].endswith('"}')
    assert json.loads(asked["text"] + "]}")["messages"] == messages[: asked["text"].count("role")]
    assert asked["size"] > 36_000


def test_a_conversation_is_kept_once(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path), ModelServer()) as gateway:
        messages: list[Any] = []
        draw = random.Random(1)
        for number in range(30):
            messages.append({"role": "user", "content": f"{number} {draw.randbytes(1000).hex()}"})
            assert gateway.post("/v1/chat/completions", {"model": "m", "messages": messages}).status == 200
        read_list(gateway)
        size = (tmp_path / "requests.db").stat().st_size
        entry = read_newest(gateway)
    assert json.loads(find_texts(entry, "client_request")[0])["messages"] == messages
    assert size < 4 * 30 * 1000


def test_a_reload_applies_the_log(tmp_path: Path) -> None:
    tree = make_settings(tmp_path, keep="off")
    changed = make_settings(tmp_path)
    with Running(tree, ModelServer(), load_settings=lambda: Settings.model_validate(changed)) as gateway:
        gateway.post("/v1/chat", QUESTION)
        reloader = gateway.context.reloader
        assert reloader is not None
        assert gateway.loop.run_until_complete(reloader.reload())
        gateway.post("/v1/chat", QUESTION)
        assert len(read_list(gateway)) == 1
        changed = tree
        assert gateway.loop.run_until_complete(reloader.reload())
        assert gateway.context.request_log is None
        gateway.post("/v1/chat", QUESTION)
        changed = make_settings(tmp_path)
        assert gateway.loop.run_until_complete(reloader.reload())
        assert len(read_list(gateway)) == 1


def test_embeddings_leave_figures_only(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    settings["models"]["e"] = {"upstreams": ["local"], "endpoints": ["embeddings"]}
    reply = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "e"}
    with Running(settings, ModelServer(lambda _: httpx.Response(200, json=reply))) as gateway:
        answer: Answer = gateway.post("/v1/embeddings", {"model": "e", "input": "alice@example.com"})
        assert answer.status == 200
        entry = read_newest(gateway)
    assert (entry["endpoint"], entry["content"]) == ("embeddings", "none")
    assert not any(part["text"] for part in entry["parts"])


@each_case("form", ["report", "har", "curl", "otel"])
def test_a_request_is_exported_without_personal_data_also_where_the_log_has_it(form: str, tmp_path: Path) -> None:
    with Running(make_settings(tmp_path, content="full"), ModelServer()) as gateway:
        gateway.post("/v1/chat/completions", {**QUESTION, "stream": True})
        answer = gateway.get(f"/v1/requests/{read_newest(gateway)['id']}/export?as={form}", ADMIN)
    assert answer.status == 200, answer.body
    assert b"Hi, I am [EMAIL]" in answer.body
    assert b"alice" not in answer.body
    assert b"model.test" not in answer.body
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="parley-{form}-')


@each_case(
    ("path", "more"),
    [
        ("/v1/chat", {}),
        ("/v1/chat/completions", {}),
        ("/v1/messages", {"max_tokens": 5, "stream": True}),
        ("/v1/responses", {"input": "Hi"}),
    ],
)
def test_an_exported_event_has_the_messages_of_request_and_reply(path: str, more: Any, tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **more}
    if "input" in more:
        del body["messages"]
    with Running(make_settings(tmp_path), ModelServer()) as gateway:
        gateway.post(path, body)
        event = gateway.get(f"/v1/requests/{read_newest(gateway)['id']}/export?as=otel", ADMIN).json
    attributes = event["attributes"]
    assert attributes["gen_ai.input.messages"] == [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    (reply,) = attributes["gen_ai.output.messages"]
    assert (reply["parts"], reply["finish_reason"]) == ([{"type": "text", "content": "Hello"}], "stop")


def test_an_export_of_what_is_not_logged_is_not_found(gateway: Running) -> None:
    assert gateway.get("/v1/requests/5/export", ADMIN).status == 404
    assert gateway.get("/v1/requests/5/export?as=pdf", ADMIN).status == 422
    assert gateway.get("/v1/requests/5/export").status == 403


def test_credentials_in_fields_are_nowhere_in_the_log(tmp_path: Path) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        parts = ['{"pass', 'word": "opaque-', 'value"}']
        calls = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": part}} for part in parts]
        deltas = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
        return streamed(*(b"data: %b\n\n" % json.dumps(delta).encode() for delta in deltas), STOP)

    tool = {"type": "mcp", "server_label": "x", "server_url": "https://x.test/", "authorization": "opaque-value"}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"access_token": "opaque-value"}'}}
    turns = [*QUESTION["messages"], {"role": "assistant", "tool_calls": [call]}]
    turns.append({"role": "tool", "tool_call_id": "c", "content": '{"clientSecret":"opaque-value"}'})
    server = {"type": "url", "url": "https://x.test/", "name": "x", "authorization_token": "opaque-value"}
    with Running(make_settings(tmp_path), ModelServer(answer)) as gateway:
        gateway.post("/v1/responses", {"model": "m", "input": "Hi", "tools": [tool]})
        gateway.post("/v1/messages", {**QUESTION, "max_tokens": 9, "mcp_servers": [server]})
        gateway.post("/v1/chat", {**QUESTION, "api_key": "opaque-value"})
        for stream in (True, False):
            body = {"model": "m", "stream": stream, "messages": turns}
            assert gateway.post("/v1/chat/completions", body).status == 200
        assert len(read_list(gateway)) == 5
        entries = [json.dumps(gateway.get(f"/v1/requests/{number}", ADMIN).json) for number in range(1, 6)]
    assert not [entry for entry in entries if "opaque" in entry]


def test_a_name_of_a_model_that_is_none_is_masked_too(gateway: Running) -> None:
    gateway.post("/v1/chat", {**QUESTION, "model": "alice@example.com"})
    assert read_list(gateway)[0]["requested_model"] == "[EMAIL]"


def test_the_list_names_end_users_and_a_report_does_not(tmp_path: Path) -> None:
    settings = make_settings(tmp_path) | {"keys": {"app": {"sha256": hash_key("app"), "users": "user"}}}
    with Running(settings, ModelServer()) as gateway:
        gateway.post("/v1/chat/completions", {**QUESTION, "user": "carol-of-sales"}, of("app"))
        assert [row["user"] for row in read_list(gateway, "?user=carol-of-sales")] == ["carol-of-sales"]
        assert b'"user": "carol' not in gateway.get("/v1/requests/1/export", ADMIN).body


def test_a_text_with_half_a_surrogate_pair_is_kept_too(gateway: Running) -> None:
    gateway.post("/v1/chat", b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800 text"}]}')
    assert "ud800 text" in find_texts(read_newest(gateway), "client_request")[0]


def test_an_entry_that_cannot_be_written_loses_no_other_one(tmp_path: Path) -> None:
    with Running(make_settings(tmp_path, content="full"), ModelServer()) as gateway:
        log = gateway.context.request_log
        assert log is not None
        log.set_finder(refuse_bad_text)
        for text in ("good", "bad", "good"):
            body = {"model": "m", "messages": [{"role": "user", "content": text + " enough text"}]}
            assert gateway.post("/v1/chat", body).status == 200
        assert len(read_list(gateway)) == 2
        assert count_outcomes(gateway) == {"written": 2, "failed": 1}
        assert log.held_bytes == 0


def refuse_bad_text(text: str) -> list[Any]:
    if "bad enough" in text:
        raise ValueError(text)
    return []


def test_a_parameter_that_does_not_validate_is_named(gateway: Running) -> None:
    answer = gateway.get("/v1/requests?limit=many", ADMIN)
    error = answer.json["error"]
    assert (answer.status, error["code"], error["param"]) == (422, "invalid_request", "limit")


@pytest.mark.parametrize("action", ["mask", "redact", "reject"])
def test_what_a_service_found_is_not_kept(action: str, tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "presidio.test":
            name = json.loads(request.content)["text"].find("Ann Lee")
            spans = [] if name < 0 else [{"start": name, "end": name + 7, "entity_type": "PERSON"}]
            return httpx.Response(200, json=spans)
        word = re.search(r"PERSON_[A-Z2-7]{8}", request.content.decode())
        said = [b"I know ", b"[" + word[0].encode() + b"]" if word else b"her"]
        chunks = [b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % one for one in said]
        return streamed(*chunks, STOP)

    guard = {"url": "http://presidio.test", "api": "presidio", "action": action}
    settings = make_settings(tmp_path) | {"guards": {"names": guard}}
    turns = [{"role": "user", "content": "I am Ann Lee, not Ann Leeson."}]
    with Running(settings, ModelServer(answer)) as gateway:
        for stream in (True, False):
            first = gateway.post("/v1/chat/completions", {"model": "m", "messages": turns, "stream": stream})
            assert first.status == (400 if action == "reject" else 200)
            assert (b"Ann Lee" in first.body) is (action == "mask")
            entry = json.dumps(read_newest(gateway))
            assert "I am [PERSON], not Ann Leeson." in entry
            assert "Ann Lee" not in entry.replace("Ann Leeson", "")


@pytest.mark.parametrize("stream", [True, False])
def test_an_entry_has_what_guards_said_of_the_request_and_the_reply(tmp_path: Path, *, stream: bool) -> None:
    guards = {
        "pii": {"detectors": ["email"]},
        "words": {"detectors": ["word"], "action": "reject", "phases": ["reply"]},
    }
    masking = {"key": "0" * 64, "patterns": {"word": "Hello"}}
    with Running({**make_settings(tmp_path), "guards": guards, "masking": masking}, ModelServer()) as gateway:
        answer = gateway.post("/v1/chat/completions", {**QUESTION, "stream": stream})
        assert b"The policy words refused this" in answer.body
        entry = read_newest(gateway)
    assert entry["guards"] == "pii=masked:1 words=reject"
