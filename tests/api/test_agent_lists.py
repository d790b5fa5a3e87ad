"""`GET /v1/models` for Codex and Claude Code, and the ids that Claude Code is shown."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.api import agent_lists
from app.config.load import load
from app.config.settings import Settings, SettingsError

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, STOP, Answer, ModelServer, Running, streamed

UPSTREAM: dict[str, Any] = {"base_url": "http://model.test/v1"}
ONE: dict[str, Any] = {
    "upstreams": {"up": UPSTREAM},
    "models": {"m": {"upstreams": ["up"], "name": "served/m", "aliases": ["a"]}},
}
CODEX = "/v1/models?client_version=0.171.0"
CLAUDE = {"user-agent": "claude-code/2.1.332"}
HI = {"messages": [{"role": "user", "content": "x"}]}


def listing(*rows: dict[str, Any], others: dict[str, Any] | None = None) -> ModelServer:
    """A server that lists these models, or at another host those of `others`."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/models"):
            found = [others] if others is not None and request.url.host == "other.test" else rows
            return httpx.Response(200, json={"data": found})
        return streamed(HELLO, STOP)

    return ModelServer(answer)


def codex_entries(settings: dict[str, Any], server: ModelServer) -> list[dict[str, Any]]:
    with Running(settings, server) as gateway:
        found: list[dict[str, Any]] = gateway.get(CODEX).json["models"]
        return found


def key(name: str, *models: str) -> dict[str, Any]:
    return {name: {"sha256": hashlib.sha256(name.encode()).hexdigest(), "models": list(models)}}


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


# -- Codex


@each_case(
    ("row", "window"),
    [
        ({"id": "served/m", "max_model_len": 1000}, 1000),
        ({"id": "served/m", "context_length": 1000}, 1000),
        ({"id": "served/m", "context_window": 1000}, 1000),
        ({"id": "served/m", "meta": {"n_ctx": 1000, "n_ctx_train": 5000}}, 1000),
        ({"id": "served/m", "max_model_len": 5000, "context_window": 1000}, 1000),
        ({"id": "m", "max_model_len": 1000}, None),
        ({"id": "served/m", "max_model_len": "1000"}, None),
        ({"id": "served/m", "max_model_len": True}, None),
        ({"id": "served/m", "max_model_len": 0}, None),
        ({"id": "served/m", "max_model_len": 10**30}, None),
        ({"id": "served/m", "meta": 3}, None),
    ],
)
def test_the_window_is_what_the_server_lists_under_its_own_name(row: dict[str, Any], window: int | None) -> None:
    with Running(ONE, listing(row)) as gateway:
        body = gateway.get(CODEX).json
    assert body["models"][0].get("context_window") == window
    assert [one["context_window"] for one in body["data"]] == [window, window]


def test_the_window_is_the_smallest_of_the_models_servers() -> None:
    settings = {
        "upstreams": {"up": UPSTREAM, "other": {"base_url": "http://other.test/v1"}},
        "models": {"m": {"upstreams": ["up", "other"]}},
    }
    server = listing({"id": "m", "max_model_len": 9000}, others={"id": "m", "max_model_len": 4000})
    assert codex_entries(settings, server)[0]["context_window"] == 4000


def test_a_configured_window_asks_no_server() -> None:
    server = listing({"id": "m", "max_model_len": 9000})
    settings = {"upstreams": {"up": UPSTREAM}, "models": {"m": {"upstreams": ["up"], "context_window": 500}}}
    assert codex_entries(settings, server)[0]["context_window"] == 500
    assert server.requests == []


def test_without_a_listed_window_the_profile_says_it() -> None:
    profile = {"max_input_tokens": 100, "max_output_tokens": 20}
    settings = {"upstreams": {"up": UPSTREAM}, "models": {"m": {"upstreams": ["up"], "profile": profile}}}
    assert codex_entries(settings, listing({"id": "m"}))[0]["context_window"] == 120


def test_other_clients_ask_no_server_for_windows() -> None:
    server = listing({"id": "served/m", "max_model_len": 1000})
    with Running(ONE, server) as gateway:
        body = gateway.get("/v1/models").json
    assert "models" not in body
    assert [row["context_window"] for row in body["data"]] == [None, None]
    assert server.requests == []


def test_a_server_that_does_not_answer_costs_its_window_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_lists, "LIST_SECONDS", 0.01)

    class Silent(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(30)
            raise AssertionError

    (entry,) = codex_entries(ONE, Silent())
    assert entry["slug"] == "m"
    assert "context_window" not in entry


def test_an_alias_is_listed_but_is_no_entry() -> None:
    with Running(ONE, listing()) as gateway:
        body = gateway.get(CODEX).json
    assert [row["id"] for row in body["data"]] == ["m", "a"]
    assert [entry["slug"] for entry in body["models"]] == ["m"]


def test_entries_and_their_etag_are_those_of_models_that_the_key_may_use() -> None:
    models = {name: {"upstreams": ["up"]} for name in ("m", "n")}
    settings = {"upstreams": {"up": UPSTREAM}, "models": models, "keys": {**key("one", "m"), **key("all", "*")}}
    with Running(settings, listing()) as gateway:
        answers = [gateway.get(CODEX, bearer(name)) for name in ("one", "all")]
        assert gateway.get(CODEX).status == 401
    assert [[entry["slug"] for entry in answer.json["models"]] for answer in answers] == [["m"], ["m", "n"]]
    assert answers[0].headers["etag"] != answers[1].headers["etag"]


def test_the_pass_throughs_models_have_entries_with_windows() -> None:
    server = listing({"id": "x", "max_model_len": 1000}, {"id": "y"})
    entries = codex_entries({"upstreams": {"up": UPSTREAM}, "passthrough": "up"}, server)
    assert [(entry["slug"], entry.get("context_window")) for entry in entries] == [("x", 1000), ("y", None)]
    assert len(server.requests) == 1


def test_efforts_are_those_of_the_profile_and_its_table() -> None:
    profiles: list[dict[str, Any]] = [{"efforts": ["low"]}, {"efforts": {"high": "default"}}, {}]
    models = {f"m{at}": {"upstreams": ["up"], "profile": profile} for at, profile in enumerate(profiles)}
    settings = {"upstreams": {"up": {**UPSTREAM, "kind": "vllm"}}, "models": models}
    entries = codex_entries(settings, listing())
    found = [[level["effort"] for level in entry["supported_reasoning_levels"]] for entry in entries]
    assert found == [["low"], ["high"], []]


def respond(gateway: Running, headers: dict[str, str]) -> Answer:
    return gateway.post("/v1/responses", {"model": "m", "input": "x", "stream": True}, headers)


def test_replies_to_codex_have_the_etag_of_its_list() -> None:
    with Running(ONE, listing()) as gateway:
        etag = gateway.get(CODEX).headers["etag"]
        assert [respond(gateway, {"originator": "codex_exec"}).headers["x-models-etag"] for _ in range(2)] == [etag] * 2
        assert "x-models-etag" not in respond(gateway, {}).headers


def test_a_reply_waits_for_no_list_and_has_the_etag_once_it_is_known() -> None:
    server = listing({"id": "served/m", "max_model_len": 1000})
    with Running(ONE, server) as gateway:
        assert "x-models-etag" not in respond(gateway, {"originator": "codex_exec"}).headers
        gateway.loop.run_until_complete(asyncio.sleep(0.05))
        etag = respond(gateway, {"originator": "codex_exec"}).headers["x-models-etag"]
        assert gateway.get(CODEX).headers["etag"] == etag


def test_a_reload_changes_the_etag_of_replies() -> None:
    changed = {**ONE, "cache": {"url": "null:"}, "models": {"m": {**ONE["models"]["m"], "display_name": "M"}}}
    with Running(ONE, listing(), load_settings=lambda: Settings.model_validate(changed)) as gateway:
        before = gateway.get(CODEX).headers["etag"]
        assert respond(gateway, {"originator": "codex_exec"}).headers["x-models-etag"] == before
        assert gateway.context.reloader is not None
        assert gateway.loop.run_until_complete(gateway.context.reloader.reload())
        after = respond(gateway, {"originator": "codex_exec"}).headers["x-models-etag"]
        assert before != after == gateway.get(CODEX).headers["etag"]


def test_the_operators_instructions_must_be_a_file_with_text(tmp_path: Path) -> None:
    empty, binary, config = tmp_path / "empty.md", tmp_path / "binary.md", tmp_path / "parley.toml"
    empty.write_text(" \n")
    binary.write_bytes(b"\xff")
    for name, reason in (("none.md", "cannot be read"), (empty.name, "is empty"), (binary.name, "UTF-8")):
        file = json.dumps(str(tmp_path / name))
        config.write_text(f"demo = true\n[agents]\ncodex_instructions = {file}\n")
        with pytest.raises(SettingsError, match=rf"agents\.codex_instructions: .*{reason}"):
            load({}, config)


# -- Claude Code


def test_claude_code_sees_ids_that_it_shows() -> None:
    with Running(ONE, listing()) as gateway:
        body = gateway.get("/v1/models?limit=1000", CLAUDE).json
    assert [(row["id"], row["display_name"]) for row in body["data"]] == [
        ("claude-parley-m", "m"),
        ("claude-parley-a", "a"),
    ]
    assert (body["first_id"], body["last_id"]) == ("claude-parley-m", "claude-parley-a")


def test_the_ids_can_be_switched_off() -> None:
    with Running({**ONE, "agents": {"claude_ids": False}}, listing()) as gateway:
        assert [row["id"] for row in gateway.get("/v1/models", CLAUDE).json["data"]] == ["m", "a"]


@each_case(
    ("query", "ids", "more"),
    [
        ("?limit=2", ["a", "b"], True),
        ("?limit=3", ["a", "b", "c"], False),
        ("?after_id=a", ["b", "c"], False),
        ("?after_id=a&limit=1", ["b"], True),
        ("?before_id=c", ["a", "b"], False),
        ("?before_id=c&limit=1", ["b"], True),
        ("?after_id=c", [], False),
    ],
)
def test_a_list_is_read_in_pages(query: str, ids: list[str], more: bool) -> None:
    settings = {"upstreams": {"up": UPSTREAM}, "models": {name: {"upstreams": ["up"]} for name in "abc"}}
    with Running(settings, listing()) as gateway:
        body = gateway.get(f"/v1/models{query}").json
    assert ([row["id"] for row in body["data"]], body["has_more"]) == (ids, more)


@each_case(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("after_id=z", "after_id"), ("before_id=z", "before_id")],
)
def test_a_page_that_is_not_there_is_refused(query: str, param: str) -> None:
    with Running(ONE, listing()) as gateway:
        answer = gateway.get(f"/v1/models?{query}")
    assert (400 <= answer.status < 500, answer.json["error"]["param"]) == (True, param)


def test_a_page_after_an_id_follows_that_model() -> None:
    with Running(ONE, listing()) as gateway:
        body = gateway.get("/v1/models?after_id=claude-parley-m", CLAUDE).json
    assert [row["id"] for row in body["data"]] == ["claude-parley-a"]


@each_case(
    ("model", "sent"),
    [
        ("claude-parley-m", "served/m"),
        ("claude-parley-a", "served/m"),
        ("claude-parley-m[1m]", "served/m"),
        ("m[1M]", "served/m"),
        ("m[1M][1m]", "served/m"),
        ("m[m]", None),
        ("claude-parley-none", None),
        ("claude-parley-", None),
    ],
)
def test_an_id_is_the_model_itself(model: str, sent: str | None) -> None:
    server = listing()
    body = {**HI, "model": model, "max_tokens": 10}
    with Running(ONE, server) as gateway:
        answer = gateway.post("/v1/messages", body)
        counted = gateway.post("/v1/messages/count_tokens", {"model": model, **HI})
        read = gateway.get(f"/v1/models/{model}")
    if sent is None:
        assert (answer.status, counted.status, read.status) == (404, 404, 404)
        return
    assert (answer.json["model"], counted.status, read.json["id"]) == (model, 200, model)
    assert json.loads(server.requests[0].content)["model"] == sent


def test_an_id_of_the_pass_through_is_not_sent() -> None:
    server = listing({"id": "x"})
    with Running({"upstreams": {"up": UPSTREAM}, "passthrough": "up"}, server) as gateway:
        answer = gateway.post("/v1/messages", {**HI, "model": "claude-parley-x", "max_tokens": 10})
    assert answer.json["model"] == "claude-parley-x"
    assert json.loads(server.requests[0].content)["model"] == "x"


def test_an_id_gives_no_right_to_its_model() -> None:
    settings = {**ONE, "keys": key("k", "claude-*")}
    with Running(settings, listing()) as gateway:
        answer = gateway.post("/v1/messages", {**HI, "model": "claude-parley-m", "max_tokens": 10}, bearer("k"))
    assert answer.status == 403


def test_a_key_uses_its_models_by_their_ids() -> None:
    settings = {**ONE, "keys": key("k", "m")}
    with Running(settings, listing()) as gateway:
        answer = gateway.post("/v1/messages", {**HI, "model": "claude-parley-m", "max_tokens": 10}, bearer("k"))
    assert answer.status == 200
