"""What an administrator sees of the teams."""

from typing import Any

from app.access import hash_key

from tests.in_process_gateway import SERVER, ModelServer, Running

SETTINGS: dict[str, Any] = {
    **SERVER,
    "teams": {"red": {"limits": {"requests_per_minute": 10, "tokens_per_minute": 9000}}, "blue": {"models": ["m*"]}},
    "keys": {
        "alice": {"sha256": hash_key("alice"), "team": "red"},
        "bob": {"sha256": hash_key("bob"), "team": "red"},
        "boss": {"sha256": hash_key("boss"), "admin": True},
    },
}


def test_a_team_has_its_keys_and_what_they_have_used_together_of_its_limits() -> None:
    with Running(SETTINGS, ModelServer()) as gateway:
        chat = {"model": "m", "messages": [{"role": "user", "content": "x"}], "cache": {"mode": "off"}}
        for name in ("alice", "bob", "boss"):
            assert gateway.post("/v1/chat", chat, {"authorization": f"Bearer {name}"}).status == 200
        blue, red = gateway.get("/v1/teams", {"authorization": "Bearer boss"}).json["data"]
        assert (blue["name"], blue["models"], blue["keys"], blue["used"]) == ("blue", ["m*"], [], [])
        assert (red["name"], red["keys"], red["limits"]["requests_per_minute"]) == ("red", ["alice", "bob"], 10)
        assert [(row["kind"], row["limit"]) for row in red["used"]] == [
            ("requests_per_minute", 10),
            ("tokens_per_minute", 9000),
        ]
        assert red["used"][0]["used"] == 2
        assert gateway.get("/v1/teams", {"authorization": "Bearer alice"}).status == 403


def test_without_teams_the_list_is_empty() -> None:
    with Running({**SETTINGS, "teams": {}, "keys": {"boss": SETTINGS["keys"]["boss"]}}, ModelServer()) as gateway:
        assert gateway.get("/v1/teams", {"authorization": "Bearer boss"}).json == {"data": []}
