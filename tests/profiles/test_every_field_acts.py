"""Each field of a profile changes something over each API that it is for, and nothing over the others."""

import base64
import hashlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.config.registry import ModelRegistry
from app.config.settings import Settings
from app.profiles import Profile
from app.profiles.apis import WITHOUT_EFFECT
from chaos_apis import APIS, find_api
from chaos_replies import Answer as Spoken

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.profiles.field_rows import HI, ROWS, Row

Json = dict[str, Any]
ELSEWHERE = {
    "caches_prefixes": "the last test but one; over Messages also tests/upstream/messages/test_own.py",
    "reports_cost": "tests/config/test_prices.py",
}
"""The fields that act on no single request."""
_WRITTEN = "the body is written for a server that takes everything, and has this already"
_CHOSEN = "the client has chosen this itself"
_NOTHING = "nothing in the body is concerned"
OF_OWN_BODIES: dict[str, dict[str, str]] = {
    "thought_only_turns": dict.fromkeys(("responses", "gemini"), _WRITTEN),
    "restore_reasoning": dict.fromkeys(("responses", "messages", "gemini"), "such clients keep it themselves"),
    "replay_details": {"messages": "such clients keep them themselves"},
    "thinking_binding": {"messages": _CHOSEN},
    "replay_extra_content": dict.fromkeys(("responses", "messages"), _NOTHING),
    "missing_signature": {"gemini": _WRITTEN},
    "thinking_switch": {"gemini": _CHOSEN},
    "efforts": {"messages": _NOTHING},
    "max_thinking_budget": {"gemini": _NOTHING},
    "alternate": dict.fromkeys(("messages", "gemini"), _WRITTEN),
    "continuation": {"messages": _WRITTEN},
    "assistant_last": dict.fromkeys(("responses", "messages", "gemini"), _CHOSEN),
    "audio": {"responses": _CHOSEN},
    "tool_media": {"responses": _WRITTEN, "gemini": _CHOSEN},
    "file_text": {"messages": "a document of text is text"},
    "default_max_tokens": {"messages": _WRITTEN},
    "sampling_excludes_top_p": {"messages": _CHOSEN},
    "max_stop_words": {"responses": "the API has no stop words"},
    "forced_choice_while_thinking": {"responses": _CHOSEN},
    "formats_beside_tools": {"gemini": _WRITTEN},
    "function_names": {"messages": _WRITTEN},
    "valid_arguments": {"responses": _WRITTEN},
    "stream": dict.fromkeys(("responses", "messages", "gemini"), _NOTHING),
    "obfuscation_option": {"responses": _CHOSEN},
}
"""The fields that change nothing of the body here of a client of the server's own API, and why."""
KEY = "a key of the test"
_PATHS = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
_IDS = re.compile(r"\b(?:resp|msg|chatcmpl|rs|fc|toolu|req|item|call)[_-][\w-]{6,}|\b[0-9a-f]{16,}\b|\b\d{10}\b")


class Probe:
    """A gateway with two models for each row and API: one has the value of the row."""

    def __init__(self, tokenizer: Path) -> None:
        self._tokenizer = str(tokenizer)
        self.server = ModelServer(self._speak)
        self._row = Row(None, HI)
        models: Json = {}
        for api in APIS:
            models[f"{api}-neutral"] = {"upstreams": [api], "profile": {"takes": "all", "extra_fields": None}}
            for name in ROWS:
                fields, value = self._read(name, api)
                fields = {"takes": "known", **fields}
                models[f"{api}-{name}-0"] = {"upstreams": [api], "profile": fields}
                models[f"{api}-{name}-1"] = {"upstreams": [api], "profile": {**fields, name: value}}
        upstreams = {api: {"base_url": f"http://{api.replace('_', '-')}.test/v1", "api": api} for api in APIS}
        keys = {"tester": {"sha256": hashlib.sha256(KEY.encode()).hexdigest()}}
        settings = {"upstreams": upstreams, "models": models, "keys": keys, "cache": {"url": "memory:"}}
        self.running = Running(settings, self.server, resolve_nothing)

    def _read(self, name: str, api: str) -> tuple[Json, Any]:
        row = ROWS[name]
        more = row.apis.get(api, {})
        value = self._tokenizer if name == "tokenizer" else more.get("value", row.value)
        return {**row.fields, **more.get("fields", {})}, value

    def _speak(self, request: httpx.Request) -> httpx.Response:
        api, body = find_api(request.url.path), json.loads(request.content)
        calls = (("call_1", "look", '{"a":1}'),) if self._row.call and b"seen" not in request.content else ()
        thought, text = ("Let me look.", "") if calls else ("", self._row.text)
        spoken = Spoken(thought, text, "", 30, 25, calls)
        if not api.read_request(request.url.path, body).get("stream"):
            return httpx.Response(200, json=api.write_whole(spoken, "up"))
        return streamed(*api.write_events(spoken, "up", random.Random(1)))

    def ask(self, client: str, model: str, body: Json, row: Row) -> Answer:
        self._row = row
        headers = {"authorization": f"Bearer {KEY}", "cache-control": "no-cache", **row.headers}
        if client == "gemini":
            method = "streamGenerateContent?alt=sse" if row.body.get("stream") else "generateContent"
            return self.running.post(f"/v1beta/models/{model}:{method}", body, headers)
        return self.running.post(_PATHS[client], {"model": model, **body}, headers)

    def write_own(self, api: str, row: Row) -> Json:
        """Return the body of a client of this API, as the gateway writes it for a server that takes everything."""
        if api == row.client or api in row.clients:
            return row.body_for(api)
        del self.server.requests[:]
        self.ask(row.client, f"{api}-neutral", row.body_for(api), row)
        if not self.server.requests:
            return {}
        body: Json = json.loads(self.server.requests[0].content)
        asked = {name: value for name, value in body.items() if name not in ("model", "stream", "stream_options")}
        return asked if "stream" not in row.body or api == "gemini" else {**asked, "stream": row.body["stream"]}

    def observe(self, client: str, api: str, name: str, body: Json, number: int) -> Any:
        """Return what the server is sent and what the client gets."""
        row, model = ROWS[name], f"{api}-{name}-{number}"
        del self.server.requests[:]
        if row.call:
            self.ask(client, model, {**body, **_first(body)}, row)
        answer = self.ask(client, model, body, row)
        sent = [
            (sorted(request.headers.items()), str(request.url), request.content.decode())
            for request in self.server.requests
        ]
        return json.loads(_IDS.sub("ID", json.dumps((sent, answer.status, answer.body.decode()))).replace(model, "m"))


def _first(body: Json) -> Json:
    """The question alone, without what followed."""
    return {name: body[name][:1] for name in ("messages", "input", "contents") if isinstance(body.get(name), list)}


async def resolve_nothing(host: str, port: int) -> list[str]:
    raise OSError("no such name")


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    tokenizer = tmp_path_factory.mktemp("ranks") / "bytes.tiktoken"
    tokenizer.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(bytes([one])), one) for one in range(256)))
    probe = Probe(tokenizer)
    with probe.running:
        yield probe


def test_every_field_has_a_row() -> None:
    assert set(Profile.model_fields) == set(ROWS) | set(ELSEWHERE)
    assert all(fields <= set(ROWS) for fields in WITHOUT_EFFECT.values())
    assert set(OF_OWN_BODIES) <= set(ROWS)


@each_case("api", APIS)
@each_case("name", ROWS)
def test_a_field_changes_what_it_is_for(probe: Probe, api: str, name: str) -> None:
    row = ROWS[name]
    client = api if api in row.clients else row.client
    body = row.body_for(api)
    is_different = probe.observe(client, api, name, body, 1) != (without := probe.observe(client, api, name, body, 0))
    assert is_different is (name not in WITHOUT_EFFECT[api]), without
    if is_different:
        assert probe.observe(client, api, name, body, 0) == without, "it differs from itself"


@each_case("api", [api for api in APIS if api != "chat_completions"])
@each_case("name", ROWS)
def test_a_field_changes_the_body_of_a_client_of_the_servers_own_api(probe: Probe, api: str, name: str) -> None:
    body = probe.write_own(api, ROWS[name])
    with_, without = (probe.observe(api, api, name, body, number) for number in (1, 0))
    is_for_it = name not in WITHOUT_EFFECT[api] and api not in OF_OWN_BODIES.get(name, {})
    assert not body or (with_ != without) is is_for_it, without


@each_case("api", APIS)
@each_case("caches", [False, True])
def test_the_server_of_a_session_is_kept_where_beginnings_are(api: str, caches: bool) -> None:
    upstreams = {name: {"base_url": f"http://{name}.test/v1", "api": api} for name in ("one", "two")}
    model = {"upstreams": ["one", "two"], "profile": {"caches_prefixes": caches}}
    registry = ModelRegistry(Settings.model_validate({"upstreams": upstreams, "models": {"m": model}}), None)
    route = registry.find("m")
    assert route is not None and route.strategy == ("session" if caches else "least_busy")


def test_a_field_without_effect_is_as_if_it_was_not_set() -> None:
    upstreams = {"one": {"base_url": "http://one.test/v1", "api": "responses"}}
    model = {"upstreams": ["one"], "profile": {"cache_control": True, "max_output_tokens": 9}}
    settings = Settings.model_validate({"upstreams": upstreams, "models": {"m": model}})
    assert not settings.profile("m", "one").cache_control
    assert settings.profile("m", "one").max_output_tokens == 9
