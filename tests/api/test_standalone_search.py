"""Codex's own search, by a real server of tools."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app.access import hash_key
from app.api.standalone_search import KeptSearches, SearchState
from app.stores import StoreError

from tests.api.hosted_search import HOSTED, KEYS, ONE, SCRIPT, TWO
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]
PAGES = ONE.replace("[1]", "[turn0search0]") + "\n\n" + TWO.replace("[2]", "[turn0search1]")


def settings(folder: Path, **hosted: Any) -> Json:
    return {
        "upstreams": {"local": {"base_url": "http://model.test/v1"}},
        "models": {name: {"upstreams": ["local"]} for name in ("m", "other")},
        "keys": {name: {"sha256": hash_key(key)} for name, key in KEYS.items()},
        "mcp_servers": {"web": {"command": sys.executable, "args": [SCRIPT], "keys": ["a"], "startup_timeout_sec": 60}},
        "hosted_tools": {**HOSTED, **hosted},
        "server": {"log_level": "error"},
        "state": {"url": f"sqlite:///{folder / 'state.db'}"},
    }


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(settings(tmp_path_factory.mktemp("search")), ModelServer()) as running:
        yield running


def ask(gateway: Running, session: str, key: str = "a", **body: Any) -> Answer:
    return gateway.post("/v1/alpha/search", {"id": session, "model": "m", **body}, {"x-api-key": KEYS[key]})


def search(query: str) -> Json:
    return {"search_query": [{"q": query}]}


def test_pages_are_opened_by_the_marks_of_earlier_requests(gateway: Running) -> None:
    first = ask(gateway, "marks", commands=search("news"))
    assert first.json == {"output": PAGES, "encrypted_output": None}
    opened = ask(gateway, "marks", commands={"open": [{"ref_id": "turn0search1"}], "find": []})
    assert opened.json["output"] == "[turn1view0] https://b.example/two\nThe page https://b.example/two."
    again = ask(gateway, "marks", commands={"find": [{"ref_id": "turn1view0", "pattern": "page"}]})
    assert again.json["output"] == "[turn2view0] https://b.example/two\nL1: The page https://b.example/two."
    other = ask(gateway, "another", commands={"open": [{"ref_id": "turn0search1"}]})
    assert other.json["output"].startswith("Error: there is no page 'turn0search1'")


def test_a_url_is_opened_if_it_stands_in_the_conversation(gateway: Running) -> None:
    commands = {"open": [{"ref_id": "https://c.example/x"}]}
    refused = ask(gateway, "urls", commands=commands)
    assert refused.json["output"].startswith("Error: the URL stands neither")
    opened = ask(gateway, "urls", commands=commands, input=[{"role": "user", "content": "See https://c.example/x."}])
    assert opened.json["output"] == "[turn1view0] https://c.example/x\nThe page https://c.example/x."


def test_queries_are_numbered_on_and_failures_are_words(gateway: Running) -> None:
    queries = [{"q": "news", "domains": ["b.example"]}, {"q": "refuse"}, {"q": "news"}, {}]
    output = ask(gateway, "many", commands={"search_query": queries, "weather": [{}]}).json["output"]
    one, failed, *_ = output.split("\n\n")
    assert one.startswith("[turn0search0] Two") and failed == "Error: engine is down"
    assert "[turn0search1] One" in output and "[turn0search2] Two" in output
    assert "Error: the call has no text" in output and "'weather'" in output


def test_a_long_answer_is_cut(gateway: Running) -> None:
    output = ask(gateway, "long", commands=search("news"), max_output_tokens=5).json["output"]
    assert output == f"{PAGES[:20]}\n[… {len(PAGES) - 20} of {len(PAGES)} bytes left out]"


def test_without_commands_or_live_pages_nothing_is_searched(gateway: Running) -> None:
    assert ask(gateway, "none").json["output"] == "Nothing was asked for."
    offline = ask(gateway, "none", commands=search("news"), settings={"external_web_access": False})
    assert 'web_search = "live"' in offline.json["output"]


@each_case(
    ("body", "key", "status"),
    [
        ({"id": None}, "a", 400),
        ({"commands": {"search_query": [{"q": "x"}] * 9}}, "a", 400),
        ({"model": "other"}, "a", 404),
        ({"model": "unknown"}, "a", 404),
        ({}, "b", 403),
    ],
)
def test_a_request_that_is_wrong_has_a_status(gateway: Running, body: Json, key: str, status: int) -> None:
    answer = gateway.post("/v1/alpha/search", {"id": "s", "model": "m", **body}, {"x-api-key": KEYS[key]})
    assert answer.status == status and answer.json["error"]["message"]


def test_a_key_and_a_model_that_are_for_no_conversations_search_nothing(tmp_path: Path) -> None:
    tree = settings(tmp_path, web_search={**HOSTED["web_search"], "models": ["*"]})
    tree["keys"]["a"]["endpoints"] = ["embeddings"]
    tree["models"]["other"]["endpoints"] = ["embeddings"]
    tree["mcp_servers"]["web"]["keys"] = ["*"]
    with Running(tree, ModelServer()) as gateway:
        refused = ask(gateway, "s", commands=search("news"))
        assert refused.status == 403 and "is for embeddings, not for chat" in refused.json["error"]["message"]
        other = ask(gateway, "s", "b", model="other", commands=search("news"))
        assert other.status == 400 and "'other' serves embeddings, not chat" in other.json["error"]["message"]


def test_pages_cannot_be_opened_without_a_fetch(tmp_path: Path) -> None:
    with Running(settings(tmp_path, web_fetch=None), ModelServer()) as gateway:
        output = ask(gateway, "s", commands={"open": [{"ref_id": "https://a.example/"}]}).json["output"]
    assert "hosted_tools.web_fetch" in output


def test_what_was_found_is_kept_in_memory_if_the_store_fails() -> None:
    class Broken:
        async def get(self, key: str) -> None:
            raise StoreError("down")

        async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
            raise StoreError("down")

        async def delete(self, key: str) -> None: ...

        async def aclose(self) -> None: ...

    async def run() -> SearchState:
        kept = KeptSearches(Broken())
        await kept.keep("k", SearchState(3, {f"turn0search{n}": "u" for n in range(300)}))
        return await kept.find("k")

    state = asyncio.run(run())
    assert (state.turn, len(state.pages), next(iter(state.pages))) == (3, 200, "turn0search100")
