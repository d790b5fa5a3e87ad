"""Searches and fetches of the web in the words of each API, which a real server of tools runs."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from app.access import hash_key
from app.formats.seal import read_seal

from tests.api.hosted_search import HOSTED, KEYS, ONE, SCRIPT, TWO
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

Json = dict[str, Any]
SEARCH, FETCH = {"type": "web_search_20250305", "name": "web_search"}, {"type": "web_fetch_20250910"}
AGENT = {"user-agent": "claude-cli/2.1.332 (external, cli)"}
TURNS: Json = {"role": "user", "content": "What is new?"}


def call(name: str, number: int = 1, **arguments: Any) -> Json:
    return {"index": number, "id": f"call_{number}", "function": {"name": name, "arguments": json.dumps(arguments)}}


def search(query: str, number: int = 1, name: str = "web_search") -> Json:
    return call(name, number, query=query)


class Model(ModelServer):
    """Answers each turn with the next calls, or with a text."""

    def __init__(self) -> None:
        super().__init__(lambda _: self._reply())
        self.turns: list[Sequence[Json] | str] = []

    def _reply(self) -> httpx.Response:
        turn = self.turns.pop(0) if self.turns else "Done."
        delta = {"content": turn} if isinstance(turn, str) else {"tool_calls": list(turn)}
        reason = "stop" if isinstance(turn, str) else "tool_calls"
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
        return streamed(*(f"data: {json.dumps(one)}\n\n".encode() for one in (chunk, usage)), b"data: [DONE]\n\n")

    @property
    def sent(self) -> list[Json]:
        return [json.loads(request.content) for request in self.requests]


class Gateway:
    def __init__(self, running: Running, model: Model) -> None:
        self.running, self.model = running, model

    def ask(self, path: str, body: Json, *turns: Any, headers: Json | None = None) -> Answer:
        self.model.turns, self.model.requests = [*turns], []
        return self.running.post(path, {"model": "m", **body}, {"x-api-key": KEYS["a"], **(headers or {})})

    def messages(self, tools: Sequence[Json], *turns: Any, headers: Json | None = None, **body: Any) -> Answer:
        given = {"max_tokens": 100, "messages": [TURNS], "tools": list(tools), **body}
        return self.ask("/v1/messages", given, *turns, headers=headers)

    def responses(self, *turns: Any, **body: Any) -> Answer:
        return self.ask("/v1/responses", {"input": "What is new?", "tools": [{"type": "web_search"}], **body}, *turns)

    @property
    def told(self) -> list[str]:
        """What the model has read of its calls."""
        messages = self.model.sent[-1]["messages"]
        return [message["content"] for message in messages if message["role"] == "tool"]

    def offered(self, number: int = 0) -> list[str]:
        return [tool["function"]["name"] for tool in self.model.sent[number].get("tools", [])]


def settings(**hosted: Any) -> Json:
    return {
        "upstreams": {"local": {"base_url": "http://model.test/v1"}},
        "models": {name: {"upstreams": ["local"]} for name in ("m", "other")},
        "keys": {name: {"sha256": hash_key(key)} for name, key in KEYS.items()},
        "mcp_servers": {"web": {"command": sys.executable, "args": [SCRIPT], "keys": ["a"], "startup_timeout_sec": 60}},
        "hosted_tools": {**HOSTED, **hosted},
        "server": {"log_level": "error"},
        "cache": {"url": "memory:"},
        "usage": {"url": "memory:"},
    }


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    model = Model()
    with Running(settings(), model) as running:
        yield Gateway(running, model)


def blocks(answer: Answer) -> list[Json]:
    content: list[Json] = answer.json["content"]
    return content


def test_the_next_request_says_the_same_to_the_model(gateway: Gateway) -> None:
    compact = {"index": 0, "id": "call_1", "function": {"name": "web_search", "arguments": '{"query":"é"}'}}
    answer = gateway.messages([SEARCH], [compact])
    live = gateway.model.sent[-1]["messages"]
    assert gateway.told == [f"{ONE}\n\n{TWO}"]
    said = {"role": "assistant", "content": blocks(answer)}
    gateway.messages([SEARCH], messages=[TURNS, said, {"role": "user", "content": "More?"}])
    assert gateway.model.sent[0]["messages"][: len(live)] == live
    assert answer.json["usage"]["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 0}


def test_a_server_of_the_same_api_is_sent_the_same_again() -> None:
    """Over Messages a result says whether it is an error."""

    def reply(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        is_first = "tool_result" not in json.dumps(body["messages"])
        used = {"type": "tool_use", "id": "toolu_1", "name": "web_search", "input": {"query": "fail"}}
        content = [used] if is_first else [{"type": "text", "text": "Done."}]
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content}
        stop = {"stop_reason": "tool_use" if is_first else "end_turn", "stop_sequence": None}
        return httpx.Response(200, json={**message, **stop, "usage": {"input_tokens": 1, "output_tokens": 1}})

    tree, model = settings(), ModelServer(reply)
    tree["upstreams"]["local"] |= {"api": "messages", "kind": "vllm"}
    tree["models"]["m"]["profile"] = {"stream": "never"}
    with Running(tree, model) as running:
        body = {"model": "m", "max_tokens": 9, "messages": [TURNS], "tools": [SEARCH]}
        said = running.post("/v1/messages", body, {"x-api-key": KEYS["a"]}).json["content"]
        live = json.loads(model.requests[-1].content)["messages"]
        more = [TURNS, {"role": "assistant", "content": said}, {"role": "user", "content": "More?"}]
        running.post("/v1/messages", {**body, "messages": more}, {"x-api-key": KEYS["a"]})
    again = json.loads(model.requests[-1].content)["messages"]
    assert again[: len(live)] == live and live[-1]["content"][0]["is_error"] is True


@each_case(
    ("query", "code", "told"),
    [
        ("fail", "unavailable", "quota used up"),
        ("busy", "too_many_requests", "HTTP 429"),
        ("refuse", "unavailable", "Error: engine is down"),
        ("x" * 1001, "query_too_long", "Error: the query has more than 1000 characters."),
        (" ", "invalid_tool_input", "Error: the call has no text in 'query'."),
    ],
)
def test_a_search_that_fails_has_a_code_for_the_client_and_words_for_the_model(
    gateway: Gateway, query: str, code: str, told: str
) -> None:
    answer = gateway.messages([SEARCH], [search(query)])
    error = blocks(answer)[1]["content"]
    assert (error["type"], error["error_code"]) == ("web_search_tool_result_error", code)
    assert gateway.told == [told]
    said = {"role": "assistant", "content": blocks(answer)}
    gateway.messages([SEARCH], messages=[TURNS, said, {"role": "user", "content": "More?"}])
    assert gateway.told == [told]


def test_a_result_without_pages_is_its_text_or_no_results(gateway: Gateway) -> None:
    answer = gateway.messages([SEARCH], [search("nothing", 1), search("empty", 2)])
    assert gateway.told == ["There is nothing.", "No results."]
    assert [block["content"] for block in blocks(answer)[2:4]] == [[], []]
    told = gateway.told
    said = {"role": "assistant", "content": blocks(answer)}
    again = gateway.messages([SEARCH], messages=[TURNS, said, {"role": "user", "content": "More?"}])
    assert gateway.told == told and "warnings" not in again.json.get("parley", {})


def test_the_request_bounds_its_searches_and_their_domains(gateway: Gateway) -> None:
    tool = {**SEARCH, "max_uses": 1, "blocked_domains": ["a.example"]}
    answer = gateway.messages([tool], [search("news", 1), search("news", 2)])
    assert [block["url"] for block in blocks(answer)[2]["content"]] == ["https://b.example/two"]
    assert blocks(answer)[3]["content"]["error_code"] == "max_uses_exceeded"
    assert answer.json["usage"]["server_tool_use"]["web_search_requests"] == 1
    gateway.messages([{**tool, "blocked_domains": ["a.example", "b.example"]}], [search("news")])
    assert gateway.told == ["No results."]


@each_case(
    ("tool", "path"),
    [
        ({"max_uses": 0}, "tools[0].max_uses"),
        ({"max_uses": True}, "tools[0].max_uses"),
        ({"allowed_domains": "a.example"}, "tools[0].allowed_domains"),
        ({"allowed_domains": ["https://a.example"]}, "tools[0].allowed_domains[0]"),
        ({"allowed_domains": ["a"], "blocked_domains": ["b"]}, "tools[0].blocked_domains"),
        ({"name": " "}, "tools[0].name"),
    ],
)
def test_a_mistake_in_the_tool_is_told_at_its_field(gateway: Gateway, tool: Json, path: str) -> None:
    answer = gateway.messages([{**SEARCH, **tool}])
    assert (answer.status, answer.json["error"]["param"]) == (400, path)
    assert not gateway.model.requests


def test_a_function_with_the_name_of_the_search_is_refused(gateway: Gateway) -> None:
    function = {"name": "web_search", "input_schema": {"type": "object"}}
    answer = gateway.messages([function, SEARCH])
    assert (answer.status, answer.json["error"]["param"]) == (400, "tools[1].name")
    answer = gateway.ask(
        "/v1/responses", {"input": "x", "tools": [{"type": "web_search"}, {"type": "function", "name": "web_search"}]}
    )
    assert (answer.status, answer.json["error"]["param"]) == (400, "tools[1].name")


def test_calls_of_the_client_are_handed_over_behind_the_searches(gateway: Gateway) -> None:
    own = {"name": "run", "input_schema": {"type": "object"}}
    answer = gateway.messages([SEARCH, own], [search("news", 1), call("run", 2)])
    kinds = [block["type"] for block in blocks(answer)]
    assert kinds == ["server_tool_use", "tool_use", "web_search_tool_result"]
    assert answer.json["stop_reason"] == "tool_use"
    said = {"role": "assistant", "content": blocks(answer)}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_2", "content": "ran"}]}
    gateway.messages([SEARCH, own], messages=[TURNS, said, result])
    assert [one["id"] for one in gateway.model.sent[0]["messages"][1]["tool_calls"]] == ["call_1", "call_2"]
    assert gateway.told == [f"{ONE}\n\n{TWO}", "ran"]


def test_who_may_not_use_the_search_is_refused_or_goes_without(gateway: Gateway) -> None:
    other = {"x-api-key": KEYS["b"]}
    assert gateway.messages([SEARCH], headers=other).status == 403
    answer = gateway.ask("/v1/responses", {"input": "x", "tools": [{"type": "web_search"}]}, headers=other)
    assert answer.status == 200 and gateway.offered() == []
    assert any("may not use" in warning for warning in answer.json["parley"]["warnings"])
    answer = gateway.messages([SEARCH], model="other")
    assert answer.status == 400 and "hosted_tools.web_search" in answer.json["error"]["message"]
    assert gateway.responses(model="other").status == 200 and gateway.offered() == []


def test_a_choice_holds_for_the_first_call_to_the_model_only(gateway: Gateway) -> None:
    named = {"type": "function", "function": {"name": "web_search"}}
    gateway.messages([SEARCH], [search("news")], tool_choice={"type": "any"})
    assert [body.get("tool_choice") for body in gateway.model.sent] == ["required", None]
    gateway.responses([search("news")], tool_choice={"type": "web_search_preview"})
    assert [body.get("tool_choice") for body in gateway.model.sent] == [named, None]
    gateway.responses(tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]})
    assert gateway.offered() == ["web_search"]
    answer = gateway.responses(model="other", tool_choice={"type": "web_search"})
    assert (answer.status, answer.json["error"]["param"]) == (400, "tool_choice.type")


def test_an_agents_request_for_nothing_but_a_search_begins_with_one(gateway: Gateway) -> None:
    def choose(headers: Json, tools: Sequence[Json] = (SEARCH,), **body: Any) -> Any:
        gateway.messages(tools, headers=headers, **body)
        return gateway.model.sent[0].get("tool_choice")

    assert choose(AGENT) == "required"
    assert choose({}) is None
    assert choose(AGENT, [SEARCH, {"name": "run", "input_schema": {"type": "object"}}]) is None
    assert choose(AGENT, messages=[TURNS, {"role": "assistant", "content": "Hi"}, TURNS]) is None


def test_a_paused_search_is_run_first(gateway: Gateway) -> None:
    used = {"type": "server_tool_use", "id": "srvtoolu_call_7", "name": "web_search", "input": {"query": "news"}}
    paused = [TURNS, {"role": "assistant", "content": [{"type": "text", "text": "I look."}, used]}]
    answer = gateway.messages([SEARCH], messages=paused)
    assert [block["type"] for block in blocks(answer)] == ["web_search_tool_result", "text"]
    assert blocks(answer)[0]["tool_use_id"] == "srvtoolu_call_7"
    assert len(gateway.model.sent) == 1 and gateway.told == [f"{ONE}\n\n{TWO}"]
    gateway.messages([SEARCH], messages=[*paused, TURNS])
    assert gateway.told != [f"{ONE}\n\n{TWO}"]  # the user has gone on without it


@each_case(
    ("url", "code"),
    [
        ("https://c.example/", "url_not_in_prior_context"),
        ("https://a.example/o", "url_not_in_prior_context"),
        ("http://10.0.0.1/x", "url_not_allowed"),
        ("ftp://a.example/x", "url_not_allowed"),
        ("https://blocked.example/x", "url_not_allowed"),
        ("https://a.example/" + "x" * 2100, "url_too_long"),
    ],
)
def test_only_public_pages_that_stand_in_the_conversation_are_fetched(gateway: Gateway, url: str, code: str) -> None:
    words = "Read https://a.example/one, http://10.0.0.1/x, ftp://a.example/x or https://blocked.example/x."
    tool = {**FETCH, "blocked_domains": ["blocked.example"]}
    answer = gateway.messages([tool], [call("web_fetch", url=url)], messages=[{"role": "user", "content": words}])
    error = blocks(answer)[1]["content"]
    assert (error["type"], error["error_code"]) == ("web_fetch_tool_result_error", code)
    assert gateway.told[0].startswith("Error: ")


def test_a_page_is_cut_and_said_again_in_the_next_request(gateway: Gateway) -> None:
    asked = {"role": "user", "content": "Read https://a.example/long/."}
    tool = {**FETCH, "max_content_tokens": 10, "citations": {"enabled": True}}
    answer = gateway.messages([tool], [call("web_fetch", url="https://a.example/long")], messages=[asked])
    told = "x" * 40 + "\n[… 360 of 400 bytes left out]"
    assert gateway.told == [told]
    assert answer.json["usage"]["server_tool_use"]["web_fetch_requests"] == 1
    assert any("citations" in warning for warning in answer.json["parley"]["warnings"])
    said = {"role": "assistant", "content": blocks(answer)}
    gateway.messages([tool], messages=[asked, said, {"role": "user", "content": "More?"}])
    assert gateway.told == [told]


def test_a_page_can_be_opened_once_a_search_has_found_it(gateway: Gateway) -> None:
    answer = gateway.responses([search("news")], [call("open_page", 2, url="https://a.example/one")])
    assert gateway.offered(0) == ["web_search"]
    assert gateway.offered(1) == gateway.offered(2) == ["web_search", "open_page"]
    actions = [item["action"]["type"] for item in answer.json["output"] if item["type"] == "web_search_call"]
    assert actions == ["search", "open_page"]
    assert gateway.told[1] == "The page https://a.example/one."


@each_case("store", [True, False])
def test_turns_of_searches_stay_apart_in_the_next_request(gateway: Gateway, store: bool) -> None:
    own = {"type": "function", "name": "run"}
    tools = [{"type": "web_search"}, own]
    first = gateway.responses([search("news", 1)], [search("empty", 2), search("fail", 3)], store=store, tools=tools)
    live = gateway.model.sent[-1]["messages"]
    more: list[Any] = [{"role": "user", "content": "More?"}]
    if store:
        gateway.responses(input=more, previous_response_id=first.json["id"], tools=tools)
    else:
        given: list[Any] = [{"role": "user", "content": "What is new?"}]
        gateway.responses(input=[*given, *first.json["output"], *more], store=False, tools=tools)
    assert gateway.model.sent[0]["messages"][: len(live)] == live


@each_case("store", [True, False])
@each_case("order", ["fs", "sf", "sfs", "fsf"])
def test_calls_of_other_tools_of_the_gateway_keep_their_places(gateway: Gateway, store: bool, order: str) -> None:
    tools = [{"type": "web_search"}, {"type": "mcp", "server_label": "web", "allowed_tools": ["fetch"]}]
    kinds = {"s": search, "f": lambda word, number: call("web-fetch", number, url=f"https://a.example/{word}")}
    turn = [kinds[kind]("news", number) for number, kind in enumerate(order, 1)]
    first = gateway.responses(turn, [search("empty", 8)], store=store, tools=tools)
    live = gateway.model.sent[-1]["messages"]
    more: list[Any] = [{"role": "user", "content": "More?"}]
    if store:
        gateway.responses(input=more, previous_response_id=first.json["id"], tools=tools)
    else:
        given: list[Any] = [{"role": "user", "content": "What is new?"}]
        gateway.responses(input=[*given, *first.json["output"], *more], store=False, tools=tools)
    assert gateway.model.sent[0]["messages"][: len(live)] == live


def test_searches_come_before_the_clients_calls_of_their_turn(gateway: Gateway) -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "run"}]
    turn = [search("news", 1), call("run", 2), search("fail", 3)]
    answer = gateway.responses(turn, tools=tools, store=False)
    items = answer.json["output"]
    assert [item["type"] for item in items] == ["web_search_call", "web_search_call", "reasoning", "function_call"]
    assert [item.get("status") for item in items[:2]] == ["completed", "failed"]
    result = {"type": "function_call_output", "call_id": "call_2", "output": "ran"}
    gateway.responses(input=[{"role": "user", "content": "x"}, *items, result], tools=tools, store=False)
    sent = gateway.model.sent[0]["messages"]
    assert [one["id"] for one in sent[1]["tool_calls"]] == ["call_1", "call_3", "call_2"]
    assert gateway.told == [f"{ONE}\n\n{TWO}", "quota used up", "ran"]


def test_a_search_names_its_sources_if_the_request_wants_them(gateway: Gateway) -> None:
    answer = gateway.responses([search("news")], include=["web_search_call.action.sources"])
    sources = [{"type": "url", "url": url} for url in ("https://a.example/one", "https://b.example/two")]
    assert answer.json["output"][0]["action"]["sources"] == sources
    assert "sources" not in gateway.responses([search("news")]).json["output"][0]["action"]


def test_a_whole_response_has_the_items_of_a_stream(gateway: Gateway) -> None:
    frames = gateway.responses([search("news")], stream=True, store=False).frames
    streamed_items = frames[-1]["response"]["output"]
    whole = gateway.responses([search("news")], store=False).json["output"]
    assert [item["type"] for item in streamed_items] == [item["type"] for item in whole]
    assert streamed_items[1]["encrypted_content"][:9] == whole[1]["encrypted_content"][:9] == "parley1.e"
    assert [frame["type"] for frame in frames if "web_search_call" in frame["type"]] == [
        f"response.web_search_call.{word}" for word in ("in_progress", "searching", "completed")
    ]


def test_a_request_that_wants_no_live_pages_goes_without(gateway: Gateway) -> None:
    answer = gateway.responses(tools=[{"type": "web_search", "external_web_access": "index_only"}])
    assert gateway.offered() == []
    (warning,) = answer.json["parley"]["warnings"]
    assert "external_web_access" in warning and "hosted_tools.web_search.offline" in warning


def test_a_mistake_in_the_filters_is_told_at_its_field(gateway: Gateway) -> None:
    tool = {"type": "web_search", "filters": {"allowed_domains": ["a.example:80"]}}
    answer = gateway.responses(tools=[tool])
    assert (answer.status, answer.json["error"]["param"]) == (400, "tools[0].filters.allowed_domains[0]")
    answer = gateway.responses(tools=[{"type": "web_search", "filters": 1}])
    assert (answer.status, answer.json["error"]["param"]) == (400, "tools[0].filters")


@each_case(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"web_search_options": {}}),
        ("/v1/chat/completions", {"tools": ["web_search"]}),
        ("/v1/chat", {"functions": ["web_search"], "stream": False}),
    ],
)
def test_chat_searches_with_a_tool_of_the_gateway(gateway: Gateway, path: str, body: Json) -> None:
    answer = gateway.ask(path, {"messages": [TURNS], **body}, [search("news")])
    assert answer.status == 200 and gateway.told == [f"{ONE}\n\n{TWO}"]
    assert "web_search_options" not in gateway.model.sent[0]
    assert answer.json["server_tools"]["calls"][0]["tool"] == "search"


def test_the_options_of_chat_say_how_many_pages_and_where(gateway: Gateway) -> None:
    options = {"search_context_size": "low", "user_location": {"type": "approximate", "approximate": {"city": "Rome"}}}
    gateway.ask("/v1/chat/completions", {"messages": [TURNS], "web_search_options": options}, [search("arguments")])
    assert json.loads(gateway.told[0]) == {"query": "arguments", "max_results": 3}


def test_tokens_are_counted_with_the_search(gateway: Gateway) -> None:
    def count(tools: Sequence[Json]) -> int:
        body = {"messages": [TURNS], "tools": list(tools)}
        number: int = gateway.ask("/v1/messages/count_tokens", body).json["input_tokens"]
        return number

    assert count([SEARCH]) > count([])


def test_a_stream_that_breaks_after_a_search_is_not_an_answer(gateway: Gateway) -> None:
    broken = b'data: {"choices":[{"index":0,"delta":{"content":"Tw"}}]}\n\n'
    turns = [[search("news")]]
    gateway.model.turns = [*turns]
    reply = gateway.model._answer
    gateway.model._answer = lambda request: reply(request) if gateway.model.turns else streamed(broken)  # type: ignore[misc]
    try:
        answer = gateway.messages([SEARCH], *turns, stream=True)
    finally:
        gateway.model._answer = reply
    kinds = [frame["type"] for frame in answer.frames]
    assert kinds[-1] == "error" and "message_stop" not in kinds


@pytest.mark.parametrize("guard", [{"detectors": ["word"], "action": "reject"}, {"detectors": ["word"]}])
def test_what_a_guard_withholds_of_a_search_no_field_of_the_reply_has(guard: Json) -> None:
    """A value that is masked for the model only is shown to the client."""
    tree = settings() | {
        "guards": {"words": {**guard, "phases": ["request"]}},
        "masking": {"key": "0" * 64, "patterns": {"word": "first"}},
    }
    model = Model()
    with Running(tree, model) as running:
        gateway = Gateway(running, model)
        found = blocks(gateway.messages([SEARCH], [search("news")]))[1]
        told = gateway.told
        more = [TURNS, {"role": "assistant", "content": [*blocks(gateway.messages([SEARCH], [search("news")]))]}, TURNS]
        gateway.messages([SEARCH], messages=more)
        streamed_items = gateway.responses([search("news")], stream=True, store=False).frames
    sealed = [read_seal(row["encrypted_content"]) for row in (found, *found["content"]) if "encrypted_content" in row]
    texts = [*(seal.text for seal in sealed if seal), *_list_sealed(streamed_items)]
    shows = "action" not in guard
    assert any("first" in (text or "") for text in texts) is shows, texts
    assert bool(found["content"]) is shows
    assert told and "first" not in told[0]
    assert not any("first" in json.dumps(sent) for sent in model.sent)


def _list_sealed(events: list[Json]) -> list[str]:
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    seals = [read_seal(item["encrypted_content"]) for item in items if item.get("encrypted_content")]
    return [result.text for seal in seals if seal for result in seal.results.values()]


@pytest.mark.parametrize("price", [{}, {"price": {"input": 0, "output": 0}}])
def test_searches_cost_their_price_and_count_for_limits_of_spending(price: Json) -> None:
    model, search_tool = Model(), {**HOSTED["web_search"], "price": {"per_1000": 1000}}
    tree = settings(web_search=search_tool)
    tree["models"]["m"] |= price
    tree["keys"]["a"]["limits"] = {"spend_per_day": 2.5}
    with Running(tree, model) as running:
        gateway = Gateway(running, model)
        assert gateway.messages([SEARCH], [search("news", 1), search("", 2)]).status == 200
        own = {"name": "run", "input_schema": {"type": "object"}}
        assert gateway.messages([SEARCH, own], [search("fail", 1), call("run", 2)]).status == 200
        body = {"id": "s", "model": "m", "commands": {"search_query": [{"q": "news"}]}}
        assert gateway.ask("/v1/alpha/search", body).status == 200
        (row,) = running.get("/v1/usage?group_by=key", {"x-api-key": KEYS["a"]}).json["data"]
        assert (row["requests"], row["cost"]) == (3, 3.0)
        assert (row["searches"], row["fetches"]) == (3, 0)
        assert gateway.messages([SEARCH], [search("news")]).status == 402
        records = [record for record in running.context.recent.list_newest_first() if record.searches]
    assert len(records) == 3


def test_pages_of_the_web_are_counted_in_usage() -> None:
    model = Model()
    with Running(settings(), model) as running:
        gateway = Gateway(running, model)
        asked = {"role": "user", "content": "Read https://a.example/one."}
        read = call("web_fetch", url="https://a.example/one")
        assert gateway.messages([FETCH], [read], messages=[asked]).status == 200
        total = running.get("/v1/usage", {"x-api-key": KEYS["a"]}).json["total"]
    assert (total["searches"], total["fetches"]) == (0, 1)


def test_the_list_of_models_says_what_a_caller_can_search() -> None:
    with Running(settings(web_fetch={**HOSTED["web_fetch"], "models": ["*"]}), Model()) as running:
        found = {
            (key, row["id"]): row["parley"]["hosted_tools"]
            for key in KEYS
            for row in running.get("/v1/models", {"x-api-key": KEYS[key]}).json["data"]
        }
    assert found["a", "m"] == ["web_search", "web_fetch"] and found["a", "other"] == ["web_fetch"]
    assert all(not hosted for (key, _), hosted in found.items() if key != "a")
