"""API keys that an administrator makes, changes, rotates and revokes while gateways run."""

import asyncio
import json
import logging
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access import hash_key
from app.access.stored_keys import KeyRow, StoredKeys
from app.api.key_watcher import KeyWatcher
from app.config.access import describe_foreign_fallbacks
from app.config.settings import Settings, SettingsError
from app.config.tables.callers import Key
from app.observe.logs import ConsoleFormatter, JsonFormatter
from app.state import StateError
from app.state.sqlite import SqliteDatabase

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

ADMIN = {"authorization": "Bearer sk-admin"}
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        **SERVER,
        "server": {"admin_key": "sk-admin", "host": "10.0.0.1"},
        "state": {"url": f"sqlite:///{folder}/state.db"},
        **more,
    }


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Running]:
    with Running(settings(tmp_path), ModelServer()) as running:
        yield running


def manage(gateway: Running, method: str, path: str = "", body: Any = None, key: dict[str, str] = ADMIN) -> Answer:
    return gateway.ask(method, f"/v1/keys{path}", [b"" if body is None else json.dumps(body).encode()], key)


def create(gateway: Running, **fields: Any) -> str:
    answer = manage(gateway, "POST", body={"name": "alice", **fields})
    assert answer.status == 201, answer.body
    key: str = answer.json["key"]
    return key


def chat(gateway: Running, key: str) -> Answer:
    return gateway.ask("POST", "/v1/chat", [CHAT], {"authorization": f"Bearer {key}"})


def test_a_note_that_no_database_can_store_is_refused(gateway: Running) -> None:
    refused = manage(gateway, "POST", body={"name": "alice", "note": "a\0b"})
    assert (refused.status, refused.json["error"]["violations"][0]["param"]) == (422, "note")
    create(gateway)
    assert manage(gateway, "PATCH", "/alice", {"note": "\0"}).status == 422


def test_the_first_key_says_who_made_it_where_none_was_needed_before(tmp_path: Path) -> None:
    own = {"admin_key": "sk-admin", "host": "127.0.0.1"}
    with Running(settings(tmp_path, server=own), ModelServer()) as gateway:
        create(gateway)
        assert manage(gateway, "GET", "/alice").json["created_by"] == "(server.admin_key)"


def test_a_key_is_shown_once_and_works_until_it_is_deleted(gateway: Running, tmp_path: Path) -> None:
    assert chat(gateway, "sk-wrong").status == 401
    key = create(gateway, note="laptop", models=["m"], limits={"requests_per_minute": 100})
    assert chat(gateway, key).status == 200
    shown = manage(gateway, "GET", "/alice").json
    assert (shown["source"], shown["models"], shown["note"]) == ("stored", ["m"], "laptop")
    assert shown["limits"]["requests_per_minute"] == 100 and shown["created_by"] == "(server.admin_key)"
    assert [row["name"] for row in manage(gateway, "GET").json["data"]] == ["alice"]
    assert not any(key.encode() in file.read_bytes() for file in tmp_path.iterdir())
    assert manage(gateway, "DELETE", "/alice").json == {"deleted": "alice"}
    assert chat(gateway, key).status == 401
    assert manage(gateway, "GET", "/alice").status == 404


def test_a_change_counts_from_the_next_request_on(gateway: Running) -> None:
    key = create(gateway)
    assert manage(gateway, "PATCH", "/alice", {"models": ["other"], "note": "n"}).json["models"] == ["other"]
    assert chat(gateway, key).status == 403
    assert manage(gateway, "PATCH", "/alice", {"models": ["*"], "limits": {"requests_per_minute": 1}}).status == 200
    assert [chat(gateway, key).status for _ in range(2)] == [200, 429]
    assert manage(gateway, "GET", "/alice").json["note"] == "n"
    assert manage(gateway, "PATCH", "/alice", {"expires": "2099-01-01"}).json["expires"] == "2099-01-01T00:00:00Z"
    assert manage(gateway, "PATCH", "/alice", {"note": "x"}).json["expires"] is not None
    assert manage(gateway, "PATCH", "/alice", {"expires": None}).json["expires"] is None


def test_after_a_rotation_both_keys_work_for_the_overlap(gateway: Running) -> None:
    first = create(gateway)
    second = manage(gateway, "POST", "/alice/rotate", {"overlap_seconds": 3600}).json["key"]
    assert [chat(gateway, key).status for key in (first, second)] == [200, 200]
    assert manage(gateway, "GET", "/alice").json["previous_until"] is not None
    third = manage(gateway, "POST", "/alice/rotate").json["key"]
    assert [chat(gateway, key).status for key in (first, second, third)] == [401, 401, 200]


def test_an_expired_key_is_not_rotated(gateway: Running) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    create(gateway, expires=soon.isoformat())
    time.sleep(0.3)
    error = manage(gateway, "POST", "/alice/rotate").json["error"]
    assert (error["param"], error["status"]) == ("expires", 422) and "change it first" in error["message"]
    assert manage(gateway, "PATCH", "/alice", {"expires": None}).status == 200
    assert manage(gateway, "POST", "/alice/rotate").status == 200


def test_a_key_in_place_of_a_name_is_neither_repeated_nor_logged(
    gateway: Running, caplog: pytest.LogCaptureFixture
) -> None:
    key = create(gateway)
    with caplog.at_level(logging.INFO):
        answer = manage(gateway, "GET", f"/{key}")
        body = json.dumps({"model": f"m {key}", "messages": [{"role": "user", "content": "x"}]}).encode()
        gateway.ask("POST", "/v1/chat", [body], {"authorization": f"Bearer {key}"})
        gateway.context.ended.report()
    assert answer.status == 404 and "not the key itself" in answer.json["error"]["message"]
    assert key.encode() not in answer.body
    for formatter in (JsonFormatter(), ConsoleFormatter(color=False)):
        lines = "".join(formatter.format(record) for record in caplog.records)
        assert key not in lines and "/v1/keys/parley-…" in lines and "m parley-…" in lines


def test_keys_outlive_the_process_and_other_processes_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.key_watcher.WATCH_SECONDS", 0.02)
    with Running(settings(tmp_path), ModelServer()) as one, Running(settings(tmp_path), ModelServer()) as two:
        key = create(one)
        two.loop.run_until_complete(asyncio.sleep(0.3))
        assert chat(two, key).status == 200
        assert manage(two, "DELETE", "/alice").status == 200
        one.loop.run_until_complete(asyncio.sleep(0.3))
        assert chat(one, key).status == 401
        key = create(one)
    with Running(settings(tmp_path), ModelServer()) as again:
        assert chat(again, key).status == 200


def test_a_key_that_was_revoked_is_listed_where_that_is_asked_for(gateway: Running, tmp_path: Path) -> None:
    key = create(gateway, note="laptop", models=["m"])
    create(gateway, name="bob")
    assert manage(gateway, "DELETE", "/alice").status == 200
    assert [row["name"] for row in manage(gateway, "GET").json["data"]] == ["bob"]
    alice, bob = manage(gateway, "GET", "?revoked=true").json["data"]
    assert (alice["name"], alice["state"], alice["revoked_by"]) == ("alice", "revoked", "(server.admin_key)")
    assert (alice["note"], alice["models"], alice["revoked"] is not None) == ("laptop", ["m"], True)
    assert (bob["name"], bob["state"], bob["revoked"]) == ("bob", "active", None)
    again = create(gateway, note="the second one")
    assert [chat(gateway, one).status for one in (key, again)] == [401, 200]
    found = [row["state"] for row in manage(gateway, "GET", "?revoked=true").json["data"] if row["name"] == "alice"]
    assert sorted(found) == ["active", "revoked"]
    manage(gateway, "DELETE", "/alice")
    alice = manage(gateway, "GET", "?revoked=true").json["data"][0]
    assert (alice["state"], alice["note"]) == ("revoked", "the second one")


def test_after_the_last_key_was_revoked_a_key_is_still_required(tmp_path: Path) -> None:
    own = settings(tmp_path, server={"admin_key": "sk-admin", "host": "127.0.0.1"})
    with Running(own, ModelServer()) as gateway:
        assert gateway.ask("POST", "/v1/chat", [CHAT]).status == 200
        key = create(gateway)
        manage(gateway, "DELETE", "/alice")
        assert [chat(gateway, key).status, gateway.ask("POST", "/v1/chat", [CHAT]).status] == [401, 401]
    with Running(own, ModelServer()) as gateway:
        assert gateway.ask("POST", "/v1/chat", [CHAT]).status == 401
        assert chat(gateway, create(gateway)).status == 200


def test_a_key_that_has_expired_says_so(tmp_path: Path) -> None:
    keys = {"old": {"sha256": "a" * 64, "expires": "2020-01-01"}, "new": {"sha256": "b" * 64, "expires": "2099-01-01"}}
    with Running(settings(tmp_path, keys=keys), ModelServer()) as gateway:
        assert {row["name"]: row["state"] for row in manage(gateway, "GET").json["data"]} == {
            "new": "active",
            "old": "expired",
        }


@each_case(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": "-x"}, "name"),
        ({"name": "a", "model": ["m"]}, "model"),
        ({"name": "a", "limits": {"requests_per_minute": 0}}, "limits.requests_per_minute"),
        ({"name": "a", "limits": {"per_minute": 1}}, "limits.per_minute"),
        ({"name": "a", "expires": "tomorrow"}, "expires"),
        ({"name": "a", "expires": "2020-01-01"}, "expires"),
        ({"name": "a", "note": "x" * 1001}, "note"),
    ],
)
def test_a_mistake_in_a_key_is_told_with_its_path(gateway: Running, body: dict[str, Any], param: str) -> None:
    answer = manage(gateway, "POST", body=body)
    assert (answer.status, answer.json["error"]["violations"][0]["param"]) == (422, param), answer.body


def test_what_cannot_be_managed(gateway: Running, tmp_path: Path) -> None:
    create(gateway)
    assert manage(gateway, "POST", body={"name": "alice"}).status == 422
    assert [manage(gateway, method, "/bob", {}).status for method in ("GET", "PATCH", "DELETE")] == [404] * 3
    assert gateway.ask("POST", "/v1/keys", [b"["], ADMIN).status == 400
    user = {"authorization": f"Bearer {create(gateway, name='user')}"}
    assert manage(gateway, "GET", key=user).status == 403
    assert manage(gateway, "GET", key={}).status == 401
    admin = {"authorization": f"Bearer {create(gateway, name='root', admin=True)}"}
    assert manage(gateway, "GET", key=admin).status == 200


def test_keys_of_the_file_stay_there(tmp_path: Path) -> None:
    with Running(settings(tmp_path, keys={"alice": {"sha256": "a" * 64}}), ModelServer()) as gateway:
        assert manage(gateway, "GET", "/alice").json["source"] == "file"
        assert manage(gateway, "POST", body={"name": "alice"}).status == 422
        assert manage(gateway, "DELETE", "/alice").status == 403
        assert manage(gateway, "PATCH", "/alice", {"note": "x"}).status == 403


def test_every_action_is_a_line_of_the_audit_log(gateway: Running, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "parley.audit"):
        key = create(gateway)
        manage(gateway, "PATCH", "/alice", {"note": "secret note"})
        manage(gateway, "POST", "/alice/rotate")
        manage(gateway, "DELETE", "/alice")
        gateway.ask("DELETE", "/v1/cache", (), ADMIN)
    lines = [record for record in caplog.records if record.name == "parley.audit"]
    fields = [vars(record)["fields"] for record in lines]
    actions = ["key.create", "key.change", "key.rotate", "key.delete", "cache.purge"]
    assert [row["action"] for row in fields] == actions
    assert all(row["admin"] == "(server.admin_key)" and row["request_id"] for row in fields)
    assert key not in str(fields) and "secret note" not in str(fields)


def test_while_the_keys_cannot_be_read_no_key_is_wrong_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: StoredKeys) -> int:
        raise StateError("down")

    monkeypatch.setattr(StoredKeys, "read_change", fail)
    with Running(settings(tmp_path), ModelServer()) as gateway:
        answer = chat(gateway, "sk-may-be-right")
        assert (answer.status, answer.json["error"]["retryable"]) == (503, True)
        assert gateway.ask("POST", "/v1/chat", [CHAT]).status == 401


@pytest.mark.parametrize("made", [False, True])
def test_until_the_keys_were_read_a_gateway_that_may_need_one_serves_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    own = settings(tmp_path, server={"admin_key": "sk-admin", "host": "127.0.0.1"})
    key = "sk-any"
    if made:
        with Running(own, ModelServer()) as gateway:
            key = create(gateway)

    def fail(self: StoredKeys) -> int:
        raise StateError("down")

    monkeypatch.setattr(StoredKeys, "read_change", fail)
    with Running(own, ModelServer()) as gateway:
        watcher = gateway.context.key_watcher
        assert watcher is not None
        for headers in ({}, {"authorization": f"Bearer {key}"}):
            answer = gateway.ask("POST", "/v1/chat", [CHAT], headers)
            assert (answer.status, answer.json["error"]["retryable"]) == (503, True)
        assert gateway.ask("GET", "/v1/status", (), ADMIN).status == 200
        monkeypatch.undo()
        gateway.loop.run_until_complete(watcher.refresh())
        assert gateway.ask("POST", "/v1/chat", [CHAT]).status == (401 if made else 200)
        assert chat(gateway, key).status == 200


def test_the_last_use_is_stored(tmp_path: Path) -> None:
    with Running(settings(tmp_path), ModelServer()) as gateway:
        key = create(gateway)
        assert manage(gateway, "GET", "/alice").json["last_used"] is None
        chat(gateway, key)
    with Running(settings(tmp_path), ModelServer()) as gateway:
        assert manage(gateway, "GET", "/alice").json["last_used"] is not None


def test_a_gateway_that_has_lost_its_administrator_needs_the_keys_that_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {**SERVER, "state": {"url": f"sqlite:///{tmp_path}/state.db"}}
    with Running(alone, ModelServer()) as gateway:  # there never was one
        assert manage(gateway, "GET", key={}).status == 403
        assert gateway.ask("POST", "/v1/chat", [CHAT]).status == 200
    with Running(settings(tmp_path), ModelServer()) as gateway:
        key = create(gateway)
    with Running(alone, ModelServer()) as gateway:
        assert [gateway.ask("POST", "/v1/chat", [CHAT]).status, chat(gateway, key).status] == [401, 200]
    with Running({**alone, "keys": {"root": {"sha256": "a" * 64}}}, ModelServer()) as gateway:
        assert chat(gateway, key).status == 401

    def fail(self: StoredKeys) -> int:
        raise StateError("down")

    monkeypatch.setattr(StoredKeys, "read_change", fail)
    with Running(alone, ModelServer()) as gateway:  # most gateways without an administrator never had one
        assert gateway.ask("POST", "/v1/chat", [CHAT]).status == 200


def test_a_key_belongs_to_a_team_of_the_configuration(tmp_path: Path) -> None:
    team = {"teams": {"blue": {"models": ["other"]}}}
    with Running(settings(tmp_path, **team), ModelServer()) as gateway:
        answer = manage(gateway, "POST", body={"name": "bob", "team": "red"})
        assert answer.status == 422 and "there is no team 'red'" in answer.body.decode()
        key = create(gateway, team="blue")
        assert chat(gateway, key).status == 403
    with Running(settings(tmp_path), ModelServer()) as gateway:  # the team was removed
        refused = chat(gateway, key)
        assert (refused.status, manage(gateway, "GET", "/alice").json["team"]) == (403, "blue")
        assert "its team 'blue' is not in the configuration" in refused.json["error"]["message"]
        assert manage(gateway, "PATCH", "/alice", {"team": None}).status == 200
        assert chat(gateway, key).status == 200


def test_a_limit_of_spending_needs_prices(gateway: Running) -> None:
    answer = manage(gateway, "POST", body={"name": "bob", "limits": {"spend_per_day": 1}})
    assert answer.status == 422 and "price" in answer.body.decode()


def test_a_change_that_could_not_be_applied_is_applied_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.key_watcher.WATCH_SECONDS", 0.02)
    with Running(settings(tmp_path), ModelServer()) as one, Running(settings(tmp_path), ModelServer()) as two:
        watcher = two.context.key_watcher
        assert watcher is not None
        apply, failures = watcher._apply, [RuntimeError("a defect")]

        async def fail_once(changed: Any) -> None:
            if failures:
                raise failures.pop()
            await apply(changed)

        monkeypatch.setattr(watcher, "_apply", fail_once)
        key = create(one)
        two.loop.run_until_complete(asyncio.sleep(0.3))
        assert not failures and chat(two, key).status == 200


def test_a_reload_and_a_changed_key_at_the_same_time_do_not_undo_each_other() -> None:
    async def scenario() -> None:
        before, after, refused = (Settings(default_model=name) for name in ("before", "after", "refused"))
        applied: list[tuple[str | None, list[str]]] = []
        keys = StoredKeys(SqliteDatabase(""))

        async def apply(changed: Settings) -> None:
            await asyncio.sleep(0)
            if changed.default_model == "refused":
                raise SettingsError(["a mistake"])
            applied.append((changed.default_model, [*changed.keys]))

        watcher = KeyWatcher(keys, before, apply)
        keys.add(KeyRow("alice", "0" * 64, {}, "", 0.0, ""))
        await asyncio.gather(watcher.refresh(), watcher.apply_file(after))
        assert applied == [("before", ["alice"]), ("after", ["alice"])]
        with pytest.raises(SettingsError):
            await watcher.apply_file(refused)
        keys.add(KeyRow("bob", "1" * 64, {}, "", 0.0, ""))
        await watcher.refresh()
        assert applied[-1] == ("after", ["alice", "bob"])

    asyncio.run(scenario())


def respond(gateway: Running, key: str) -> str:
    body = json.dumps({"model": "m", "input": "private"}).encode()
    answer = gateway.ask("POST", "/v1/responses", [body], {"authorization": f"Bearer {key}"})
    assert answer.status == 200, answer.body
    id_: str = answer.json["id"]
    return id_


def test_a_key_with_the_name_of_a_former_one_is_another_caller(tmp_path: Path) -> None:
    own = settings(tmp_path, cache={"url": f"sqlite:///{tmp_path}/replies.db"})
    server = ModelServer()
    with Running(own, server) as gateway:
        first = create(gateway)
        id_ = respond(gateway, first)
        cached = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "cache": {"mode": "on"}})
        asked = [gateway.ask("POST", "/v1/chat", [cached.encode()], {"authorization": f"Bearer {first}"})]
        read = gateway.get(f"/v1/responses/{id_}", {"authorization": f"Bearer {first}"})
        rotated = manage(gateway, "POST", "/alice/rotate", {}).json["key"]
        again = gateway.get(f"/v1/responses/{id_}", {"authorization": f"Bearer {rotated}"})
        assert [read.status, again.status] == [200, 200], "a rotated key is the same caller"
        manage(gateway, "DELETE", "/alice")
        second, sent = create(gateway), len(server.requests)
        refused = gateway.get(f"/v1/responses/{id_}", {"authorization": f"Bearer {second}"})
        assert refused.status == 404 and b"private" not in refused.body
        asked.append(gateway.ask("POST", "/v1/chat", [cached.encode()], {"authorization": f"Bearer {second}"}))
        assert [one.status for one in asked] == [200, 200] and len(server.requests) == sent + 1


def test_a_key_of_an_older_version_keeps_what_it_has_stored(tmp_path: Path) -> None:
    own = settings(tmp_path)
    database = SqliteDatabase(f"{tmp_path}/state.db")
    StoredKeys(database).add(KeyRow("old", hash_key("sk-old-0123456789"), {}, "", 1.0, "root"))
    database.close()
    with Running(own, ModelServer()) as gateway:
        id_ = respond(gateway, "sk-old-0123456789")
        with database.snapshot() as statements:
            keys = [key for (key,) in statements.execute('SELECT "key" FROM kept_values')]
        database.close()
        assert f"response:key old:{id_}" in keys


@each_case("change", [{"models": None}, {"limits": None}, {"admin": None}, {"note": None}, {"fallbacks": None}])
def test_null_in_a_change_is_not_given(change: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, Running(settings(Path(folder)), ModelServer()) as gateway:
        create(gateway, models=["m"], limits={"requests_per_minute": 5}, note="n", admin=True, fallbacks="own")
        before = manage(gateway, "GET", "/alice").json
        assert manage(gateway, "PATCH", "/alice", change).json == before


def test_null_removes_an_expiry_a_team_and_a_scope_and_no_single_limit(tmp_path: Path) -> None:
    with Running(settings(tmp_path, teams={"t": {}}), ModelServer()) as gateway:
        create(gateway, expires="2099-01-01", team="t", cache_scope="s", limits={"requests_per_minute": 5})
        removed = manage(gateway, "PATCH", "/alice", {"expires": None, "team": None, "cache_scope": None}).json
        assert (removed["expires"], removed["team"], removed["cache_scope"]) == (None, None, "alice")
        refused = manage(gateway, "PATCH", "/alice", {"limits": {"requests_per_minute": None}})
        assert (refused.status, refused.json["error"]["violations"][0]["param"]) == (422, "limits.requests_per_minute")
        assert manage(gateway, "PATCH", "/alice", {"limits": {}}).json["limits"]["requests_per_minute"] is None


@each_case("admin", [1, 0, "true", "yes", 1.0, [True]])
def test_nothing_but_a_boolean_makes_an_administrator(admin: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, Running(settings(Path(folder)), ModelServer()) as gateway:
        assert manage(gateway, "POST", body={"name": "alice", "admin": admin}).status == 422
        create(gateway)
        assert manage(gateway, "PATCH", "/alice", {"admin": admin}).status == 422
        assert manage(gateway, "GET", "/alice").json["admin"] is False
    with pytest.raises(ValueError, match="must be true or false"):
        Key.model_validate({"sha256": "a" * 64, "admin": 1})
    assert Key.model_validate({"sha256": "a" * 64, "admin": "True"}).admin


def test_a_key_may_be_kept_from_fallbacks_that_it_could_not_ask_for() -> None:
    own = {
        **SERVER,
        "models": {
            "m": {"upstreams": ["local"], "fallbacks": ["big"]},
            "big": {"upstreams": ["local"]},
        },
        "keys": {
            "all": {"sha256": hash_key("sk-all-0123456789"), "models": ["m*"]},
            "own": {"sha256": hash_key("sk-own-0123456789"), "models": ["m*"], "fallbacks": "own"},
        },
    }
    server = ModelServer(lambda request: httpx.Response(503))
    with Running(own, server) as gateway:
        for name, models in (("own", {"m"}), ("all", {"m", "big"})):
            server.requests.clear()
            assert chat(gateway, f"sk-{name}-0123456789").status == 503
            assert {json.loads(request.content)["model"] for request in server.requests} == models
    found = [*describe_foreign_fallbacks(Settings.model_validate(own))]
    assert found == [
        "key all: big may answer as a fallback, which it may not ask for itself",
        "key own: big may not answer as a fallback, which it may not ask for itself",
    ]


@pytest.mark.parametrize(
    "path", ["/v1/keys", "/v1/usage", "/v1/teams", "/v1/status", "/v1/models", "/metrics", "/v1/none"]
)
def test_no_proxy_stores_what_the_gateway_tells_of_itself(gateway: Running, path: str) -> None:
    for headers in (ADMIN, {}):
        assert gateway.get(path, headers).headers.get_list("cache-control") == ["no-store"]
