"""End users behind one key: limits and usage of each, and what is stored for one is not another's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access.key_ring import hash_key

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
APP, BOSS = {"authorization": "Bearer app"}, {"authorization": "Bearer boss"}
ONE_A_MINUTE = {"limits_per_user": {"requests_per_minute": 1}}


def with_users(users: str, **more: Any) -> dict[str, Any]:
    keys = {"app": {"sha256": hash_key("app"), "users": users, **more}, "boss": {"sha256": hash_key("boss")}}
    keys["boss"]["admin"] = True
    return {**SERVER, "keys": keys, "cache": {"url": "memory:"}, "usage": {"url": "memory:"}}


def ask(gateway: Running, user: str | None, path: str = "/v1/chat/completions", body: Any = CHAT) -> Answer:
    return gateway.post(path, body, APP if user is None else APP | {"x-user": user})


def usage(gateway: Running, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = gateway.get(f"/v1/usage?{query}", BOSS).json["data"]
    return rows


@pytest.fixture
def server() -> ModelServer:
    return ModelServer()


@pytest.fixture
def limited(server: ModelServer) -> Iterator[Running]:
    with Running(with_users("header:X-User", **ONE_A_MINUTE), server) as gateway:
        yield gateway


def test_each_user_has_limits_and_all_requests_without_one_share_theirs(limited: Running) -> None:
    statuses = [ask(limited, user).status for user in ("ann", "ann", "bob", None, None, "  ")]
    assert statuses == [200, 429, 200, 200, 429, 429]
    long = [ask(limited, "x" * 128 + end).status for end in ("", "y")]
    assert long == [200, 429], "the first 128 characters count"
    error = ask(limited, "ann").json["error"]
    assert (error["code"], error["scope"]) == ("rate_limit", "user")
    assert "1 requests per minute of the user 'ann' of the API key 'app'" in error["message"]
    of_nobody = ask(limited, None, "/v1/messages", CHAT | {"max_tokens": 5}).json["error"]
    assert of_nobody["scope"] == "user"
    assert "the requests without a user of the API key 'app'" in of_nobody["message"]


def test_the_limits_of_the_key_hold_besides_those_of_its_users(server: ModelServer) -> None:
    both = {"limits": {"requests_per_minute": 2}, "limits_per_user": {"requests_per_minute": 2}}
    with Running(with_users("header:x-user", **both), server) as gateway:
        assert [ask(gateway, user).status for user in ("ann", "bob", "eve")] == [200, 200, 429]
        assert ask(gateway, "eve").json["error"]["scope"] == "key"


def test_without_the_setting_a_header_and_a_body_name_nobody(server: ModelServer) -> None:
    settings = with_users("header:x-user")
    del settings["keys"]["app"]["users"]
    with Running(settings, server) as gateway:
        ask(gateway, "ann", body=CHAT | {"user": "ann"})
        assert [row["user"] for row in usage(gateway, "group_by=user")] == [""]


MESSAGES = CHAT | {"max_tokens": 5}


@each_case(
    ("users", "path", "body"),
    [
        ("user", "/v1/chat/completions", CHAT | {"user": "ann"}),
        ("user", "/v1/chat/completions", CHAT | {"safety_identifier": "ann"}),
        ("user", "/v1/responses", {"model": "m", "input": "Hi", "user": "ann"}),
        ("user", "/v1/responses", {"model": "m", "input": "Hi", "safety_identifier": "ann"}),
        ("user", "/v1/embeddings", {"model": "m", "input": "Hi", "user": "ann"}),
        ("metadata.user_id", "/v1/messages", MESSAGES | {"metadata": {"user_id": "ann"}}),
        ("metadata.who", "/v1/chat/completions", CHAT | {"metadata": {"who": "ann"}}),
        ("metadata.who", "/v1/chat", CHAT | {"metadata": {"who": "ann"}}),
        ("metadata.who", "/v1/responses", {"model": "m", "input": "Hi", "metadata": {"who": "ann"}}),
    ],
)
def test_a_body_names_its_user_where_the_key_says(users: str, path: str, body: dict[str, Any]) -> None:
    settings = with_users(users)
    settings["models"] = {"m": {"upstreams": ["local"], "endpoints": ["chat", "embeddings"]}}
    with Running(settings, ModelServer()) as gateway:
        gateway.post(path, body, APP)
        (row,) = usage(gateway, "group_by=user&user=ann")
        assert (row["user"], row["requests"]) == ("ann", 1)


def test_two_sessions_of_claude_code_are_one_user(server: ModelServer) -> None:
    with Running(with_users("metadata.user_id", **ONE_A_MINUTE), server) as gateway:

        def send(device: str, session: str) -> int:
            user_id = f'{{"device_id": "{device}", "account_uuid": "", "session_id": "{session}"}}'
            return gateway.post("/v1/messages", MESSAGES | {"metadata": {"user_id": user_id}}, APP).status

        assert [send("d1", "s1"), send("d1", "s2"), send("d2", "s3")] == [200, 429, 200]


def test_a_request_that_is_refused_before_its_body_is_read_counts_for_its_user(server: ModelServer) -> None:
    with Running(with_users("header:x-user"), server) as gateway:
        assert ask(gateway, "ann", body={"messages": 7}).status == 400
        assert [(row["user"], row["errors"]) for row in usage(gateway, "group_by=user")] == [("ann", 1)]


def test_users_get_no_stored_reply_of_another_user_unless_the_key_has_a_cache_scope(server: ModelServer) -> None:
    def labels(**more: Any) -> list[str]:
        with Running(with_users("header:x-user", **more), server) as gateway:
            cached = CHAT | {"cache": {"mode": "on"}, "temperature": 0}
            return [ask(gateway, user, body=cached).headers["x-parley-cache"] for user in ("ann", "bob", "ann")]

    assert labels() == ["miss", "miss", "hit"]
    assert labels(cache_scope="team") == ["miss", "hit", "hit"]


@each_case("users", ["header:x-user", "user"])
def test_a_stored_response_is_continued_by_its_user_alone(users: str) -> None:
    with Running(with_users(users), ModelServer()) as gateway:

        def send(user: str, **more: Any) -> Answer:
            return ask(gateway, user, "/v1/responses", {"model": "m", "input": "Hi", "user": user, **more})

        id_ = send("ann").json["id"]
        later = send("ann", previous_response_id=id_)
        assert later.status == 200
        assert send("ann", previous_response_id=later.json["id"]).status == 200, "it was stored for the same user"
        assert send("bob", previous_response_id=id_).json["error"]["code"] == "previous_response_not_found"
        if users == "header:x-user":
            statuses = [gateway.get(f"/v1/responses/{id_}", APP | {"x-user": user}).status for user in ("ann", "bob")]
            assert statuses == [200, 404]


def test_a_user_that_is_required_and_missing_refuses_replies_and_nothing_else(server: ModelServer) -> None:
    with Running(with_users("header:x-user", users_required=True), server) as gateway:
        refused = [ask(gateway, None), ask(gateway, "a\tb"), ask(gateway, None, "/v1/messages", MESSAGES)]
        assert [answer.status for answer in refused] == [400] * 3
        assert "must name their end user in the header x-user" in refused[0].json["error"]["message"]
        assert ask(gateway, "ann").status == 200
        assert gateway.get("/v1/models", APP).status == 200
    assert len(server.requests) == 1


def test_a_hashed_user_is_known_by_its_hash_in_usage_limits_and_log(
    server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = with_users("metadata.who", hash_users=True, **ONE_A_MINUTE)
    settings |= {"state": {"url": f"sqlite:///{tmp_path}/state.db"}}
    seen = []
    for _ in range(2):  # the hash is the same after a restart
        with Running(settings, server) as gateway:
            body = CHAT | {"metadata": {"who": "ann@example.com"}}
            assert gateway.post("/v1/chat/completions", body, APP).status == 200
            refused = gateway.post("/v1/chat/completions", body, APP)
            (row,) = usage(gateway, "group_by=user")
            seen.append(row["user"])
            assert f"user '{row['user']}'" in refused.json["error"]["message"]
            lines = [record.__dict__.get("fields") for record in caplog.records if record.name == "parley.request"]
            assert "ann@example.com" not in str(lines)
    assert seen[0] == seen[1] and len(seen[0]) == 16


def test_users_are_refused_while_their_names_cannot_be_hashed(server: ModelServer, tmp_path: Path) -> None:
    settings = with_users("header:x-user", hash_users=True)
    (tmp_path / "file").write_text("no folder")
    with Running({**settings, "state": {"url": f"sqlite:///{tmp_path}/file/state.db"}}, server) as gateway:
        answer = ask(gateway, "ann")
        assert (answer.status, answer.json["error"]["code"]) == (503, "overloaded")
    assert not server.requests


def test_tags_of_a_header_and_of_metadata_group_usage(server: ModelServer) -> None:
    with Running(with_users("header:x-user"), server) as gateway:
        gateway.post("/v1/chat/completions", CHAT | {"metadata": {"tags": ["a", "b"]}}, APP)
        gateway.post("/v1/chat", CHAT | {"metadata": {"tags": "a"}}, APP | {"x-parley-tags": "c, a"})
        gateway.post("/v1/messages", MESSAGES | {"metadata": {"tags": ["b"]}}, APP)
        gateway.post("/v1/responses", {"model": "m", "input": "Hi", "metadata": {"tags": ["a"]}}, APP)
        gateway.post("/v1/chat", CHAT, APP)
        report = gateway.get("/v1/usage?group_by=tag", BOSS).json
        assert [(row["tag"], row["requests"]) for row in report["data"]] == [("", 1), ("a", 3), ("b", 2), ("c", 1)]
        assert report["total"]["requests"] == 5, "a request with two tags counts once"
        assert [row["requests"] for row in usage(gateway, "tag=a&group_by=key")] == [3]
        table = gateway.get("/v1/usage?group_by=tag&tag=c&format=csv", BOSS).body.decode().splitlines()
        assert [line.split(",")[:2] for line in table] == [["tag", "requests"], ["a", "1"], ["c", "1"]]


def test_a_tag_that_does_not_count_is_a_warning_and_never_an_error(server: ModelServer) -> None:
    with Running(with_users("header:x-user"), server) as gateway:
        answer = gateway.post("/v1/chat", CHAT | {"stream": False}, APP | {"x-parley-tags": "ok," + "x" * 65})
        assert any("a tag has 1 to 64" in warning for warning in answer.json["warnings"])
        assert [row["tag"] for row in usage(gateway, "group_by=tag")] == ["ok"]


def test_a_request_that_passes_through_has_tags_and_their_warnings() -> None:
    settings = with_users("header:x-user")
    settings["models"] = {"m": {"upstreams": ["local"], "endpoints": ["embeddings"]}}
    server = ModelServer(lambda _: httpx.Response(200, json={"data": []}))
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/embeddings", {"model": "m", "input": "x"}, APP | {"x-parley-tags": f"ok,{'x' * 65}"})
        assert answer.status == 200 and "a tag has 1 to 64" in answer.headers["x-parley-warnings"]
        assert [row["tag"] for row in usage(gateway, "group_by=tag")] == ["ok"]


@each_case("tags", [["a", "b"], "a,b"])
def test_tags_in_the_metadata_of_a_request_that_passes_through_count_and_are_not_sent(tags: object) -> None:
    settings = with_users("header:x-user")
    settings["models"] = {
        "m": {"upstreams": ["local"], "endpoints": ["embeddings"], "price": {"input": 1, "output": 1}}
    }
    server = ModelServer(lambda _: httpx.Response(200, json={"data": []}))
    with Running(settings, server) as gateway:
        for metadata in ({"tags": tags}, {"tags": tags, "k": "v"}):
            body = {"model": "m", "input": "x", "metadata": metadata}
            assert gateway.post("/v1/embeddings", body, APP | {"x-parley-tags": "c"}).status == 200
        assert [row["tag"] for row in usage(gateway, "group_by=tag")] == ["a", "b", "c"]
    assert [json.loads(request.content).get("metadata") for request in server.requests] == [None, {"k": "v"}]
