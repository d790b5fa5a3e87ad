"""What a `config.yaml` of LiteLLM has beside its models becomes settings of Parley, or a note."""

import hashlib
from typing import Any

from tests.each_case import each_case
from tests.importers.imported import one


@each_case(
    ("text", "cache"),
    [
        ("cache: true", {"apply": "always", "url": "memory:"}),
        ("cache: false, cache_params: {type: redis}", None),
        (
            "cache: true, cache_params: {type: redis, host: r, port: 6380, password: 'p/w', ttl: 60, ssl: true}",
            {"apply": "always", "url": "rediss://:p%2Fw@r:6380/0", "ttl_seconds": 60.0},
        ),
        (
            "cache: true, cache_params: {type: redis, password: os.environ/REDIS_PASSWORD}",
            {"apply": "always", "url": "redis://:${REDIS_PASSWORD}@${REDIS_HOST}:6379/0"},
        ),
        (
            "cache: true, cache_params: {type: redis-semantic, url: 'redis://r/1'}",
            {"apply": "always", "url": "redis://r/1"},
        ),
    ],
)
def test_a_cache_is_one_of_every_reply(text: str, cache: dict[str, Any] | None) -> None:
    tree, notes = one("model: openai/m", rest=f"litellm_settings: {{{text}}}")
    assert (tree.get("cache"), notes) == (cache, [])


def test_the_master_key_is_that_of_an_administrator() -> None:
    tree, notes = one("model: openai/m", rest="general_settings: {master_key: sk-1234}")
    assert tree["keys"] == {"master": {"sha256": hashlib.sha256(b"sk-1234").hexdigest(), "admin": True}}
    assert notes == []
    tree, notes = one("model: openai/m", rest="general_settings: {master_key: os.environ/MASTER}")
    assert tree["keys"] == {"master": {"admin": True}}
    assert notes == [
        'general_settings.master_key: set PARLEY_API_KEYS="master:${MASTER}", which is then an administrator\'s key'
    ]


def test_servers_of_tools_are_taken() -> None:
    tree, notes = one(
        "model: openai/m",
        rest="""
mcp_servers:
  my time: {transport: stdio, command: uvx, args: [mcp-server-time], env: {A: os.environ/A}}
  docs: {url: 'https://h.example/mcp', auth_type: bearer_token, auth_value: os.environ/TOKEN}
  old: {url: 'https://h.example/sse', transport: sse}
""",
    )
    assert tree["mcp_servers"] == {
        "my_time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"A": "${A}"}},
        "docs": {"url": "https://h.example/mcp", "http_headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    assert notes == ["mcp_servers.old.transport: a server needs a command, or a url that speaks streamable HTTP"]


@each_case(
    ("row", "expected", "note"),
    [
        ("auth_type: api_key, auth_value: k", {"http_headers": {"X-API-Key": "k"}}, ""),
        ("auth_type: authorization, auth_value: k", {"http_headers": {"Authorization": "k"}}, ""),
        ("auth_type: basic, auth_value: 'a:b'", {"http_headers": {"Authorization": "Basic YTpi"}}, ""),
        (
            "auth_type: basic, auth_value: os.environ/LOGIN",
            {"http_headers": {"Authorization": "${LOGIN}"}},
            "auth_value: set the variable to the header's value",
        ),
        ("auth_type: none, auth_value: k", {}, ""),
        ("static_headers: {X-A: os.environ/A}", {"http_headers": {"X-A": "${A}"}}, ""),
        ("allowed_tools: [a], disallowed_tools: [b]", {"enabled_tools": ["a"], "disabled_tools": ["b"]}, ""),
        ("auth_type: oauth2, client_id: x", None, "auth_type: 'oauth2' has no counterpart: the server was not taken"),
    ],
)
def test_a_server_of_tools_keeps_its_credential_in_the_header_of_its_kind(
    row: str, expected: dict[str, Any] | None, note: str
) -> None:
    tree, notes = one("model: openai/m", rest=f"mcp_servers: {{s: {{url: 'https://h.example/mcp', {row}}}}}")
    server = tree.get("mcp_servers", {}).get("s")
    assert server == (None if expected is None else {"url": "https://h.example/mcp", **expected})
    assert [one.startswith(f"mcp_servers.s.{note}") for one in notes] == ([True] if note else [])
