"""Log probabilities of tokens, from servers and for clients of chat completions and of the Responses API."""

import json
from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]
TOKENS = ("Hé", "llo", " you")
TEXT = "".join(TOKENS)
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ASKS: dict[str, Json] = {
    CHAT: {"messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 1},
    RESPONSES: {"input": "Hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1},
}
EACH_WAY = [
    (path, api, stream) for path in ASKS for api in ("chat_completions", "responses") for stream in (False, True)
]


def score(token: str) -> Json:
    alternative = {"token": token, "logprob": -0.1, "bytes": list(token.encode())}
    return alternative | {"top_logprobs": [alternative]}


def write(frames: list[Json]) -> httpx.Response:
    data = "".join([f"data: {json.dumps(frame)}\n\n" for frame in frames])
    return httpx.Response(200, text=data, headers={"content-type": "text/event-stream"})


def write_chat(body: Json, tokens: tuple[str, ...] = TOKENS, *, has_scores: bool = True) -> httpx.Response:
    scores = [{"content": [score(token)], "refusal": None} if has_scores else None for token in tokens]
    if not body.get("stream"):
        message = {"role": "assistant", "content": "".join(tokens)}
        logprobs = {"content": [score(token) for token in tokens]} if has_scores else None
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice]})
    choices = [
        {"index": 0, "delta": {"content": token}, "logprobs": logprobs}
        for token, logprobs in zip(tokens, scores, strict=True)
    ]
    return write([{"choices": [one]} for one in [*choices, {"index": 0, "delta": {}, "finish_reason": "stop"}]])


def write_responses(body: Json, tokens: tuple[str, ...] = TOKENS) -> httpx.Response:
    text = "".join(tokens)
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": [score(token) for token in tokens]}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": [item]}
    if not body.get("stream"):
        return httpx.Response(200, json=whole)
    place: Json = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    events: list[Json] = [
        {"type": "response.created", "response": whole | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.content_part.added", **place, "part": part | {"text": "", "logprobs": []}},
        *(
            {"type": "response.output_text.delta", **place, "delta": token, "logprobs": [score(token)]}
            for token in tokens
        ),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": part["logprobs"]},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return write([event | {"sequence_number": number} for number, event in enumerate(events)])


def answer_as_asked(request: httpx.Request) -> httpx.Response:
    """Log probabilities for a request that asks for them as its API does."""
    body = json.loads(request.content)
    if request.url.path.endswith("/responses"):
        assert (body["include"], body["top_logprobs"]) == (["message.output_text.logprobs"], 1)
        return write_responses(body)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 1)
    return write_chat(body)


def make_settings(api: str = "chat_completions", **profile: Any) -> Json:
    return {
        "upstreams": {"s": {"base_url": "http://model.test/v1", "api": api}},
        "models": {"m": {"upstreams": ["s"], "profile": {"encrypted_reasoning": False, **profile}}},
    }


def list_scored(path: str, answer: Answer) -> list[tuple[str, list[Json]]]:
    """The texts of a reply with their log probabilities."""
    assert answer.status == 200, answer.body
    if answer.headers["content-type"].startswith("text/event-stream"):
        lines = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: {")]
        frames = [json.loads(line) for line in lines]
        if path == RESPONSES:
            deltas = [frame for frame in frames if frame["type"] == "response.output_text.delta"]
            return [(frame["delta"], frame["logprobs"]) for frame in deltas]
        choices = [choice for frame in frames for choice in frame["choices"] if choice["delta"].get("content")]
        return [(one["delta"]["content"], (one.get("logprobs") or {}).get("content", [])) for one in choices]
    if path == RESPONSES:
        return [(part["text"], part["logprobs"]) for item in answer.json["output"] for part in item["content"]]
    (choice,) = answer.json["choices"]
    return [(choice["message"]["content"], (choice["logprobs"] or {}).get("content", []))]


@each_case(("path", "api", "stream"), EACH_WAY)
def test_they_reach_clients_of_each_api_from_servers_of_each_api(path: str, api: str, stream: bool) -> None:
    with Running(make_settings(api), ModelServer(answer_as_asked)) as gateway:
        answer = gateway.post(path, {"model": "m", "stream": stream, **ASKS[path]})
    found = list_scored(path, answer)
    assert "".join([text for text, _ in found]) == TEXT
    assert [token for _, tokens in found for token in tokens] == [score(token) for token in TOKENS]
    assert "logprobs:" not in answer.body.decode()


@each_case(("path", "api"), [(CHAT, "chat_completions"), (RESPONSES, "chat_completions"), (CHAT, "responses")])
def test_each_token_of_a_stream_comes_with_its_own(path: str, api: str) -> None:
    with Running(make_settings(api), ModelServer(answer_as_asked)) as gateway:
        answer = gateway.post(path, {"model": "m", "stream": True, **ASKS[path]})
    assert list_scored(path, answer) == [(token, [score(token)]) for token in TOKENS]


def test_the_end_of_a_text_and_its_item_have_all_of_them() -> None:
    with Running(make_settings(), ModelServer(answer_as_asked)) as gateway:
        answer = gateway.post(RESPONSES, {"model": "m", "stream": True, **ASKS[RESPONSES]})
    ends = {frame["type"]: frame for frame in answer.frames}
    expected = [score(token) for token in TOKENS]
    assert ends["response.output_text.done"]["logprobs"] == expected
    assert ends["response.content_part.done"]["part"]["logprobs"] == expected
    assert ends["response.output_item.done"]["item"]["content"][0]["logprobs"] == expected
    assert ends["response.content_part.added"]["part"]["logprobs"] == []


def test_a_reply_without_the_question_has_none() -> None:
    with Running(make_settings(), ModelServer(lambda request: write_chat(json.loads(request.content)))) as gateway:
        for stream in (False, True):
            answer = gateway.post(CHAT, {"model": "m", "stream": stream, "messages": ASKS[CHAT]["messages"]})
            assert list_scored(CHAT, answer)[0][1] == []


@each_case(("path", "api", "stream"), EACH_WAY)
def test_reasoning_that_is_taken_out_leaves_them_out_with_a_warning(path: str, api: str, stream: bool) -> None:
    tokens = ("<think>", "Hm", "</think>", "Yes")
    write_reply = write_chat if api == "chat_completions" else write_responses
    server = ModelServer(lambda request: write_reply(json.loads(request.content), tokens))
    with Running(make_settings(api), server) as gateway:
        answer = gateway.post(path, {"model": "m", "stream": stream, **ASKS[path]})
    assert "log probabilities were left out" in answer.body.decode()
    assert '"token"' not in answer.body.decode()


@each_case("stream", [False, True])
def test_a_server_that_sends_none_gets_a_warning(stream: bool) -> None:
    server = ModelServer(lambda request: write_chat(json.loads(request.content), has_scores=False))
    with Running(make_settings(), server) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "stream": stream, **ASKS[CHAT]})
    assert "the model server sent none" in answer.body.decode()
    assert "".join([text for text, _ in list_scored(CHAT, answer)]) == TEXT


def test_a_stop_word_keeps_those_before_it() -> None:
    server = ModelServer(lambda request: write_chat(json.loads(request.content)))
    with Running(make_settings(), server) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "stop": [" yo"], **ASKS[CHAT]})
    assert list_scored(CHAT, answer) == [("Héllo", [score("Hé"), score("llo")])]
    assert "log probabilities were left out" in answer.body.decode()


def test_a_number_that_json_does_not_have_is_openais_least() -> None:
    scores = '{"content": [{"token": "a", "logprob": -Infinity}, {"token": "b", "logprob": NaN}]}'
    choice = f'{{"index": 0, "message": {{"content": "ab"}}, "logprobs": {scores}, "finish_reason": "stop"}}'
    server = ModelServer(lambda _: httpx.Response(200, text=f'{{"choices": [{choice}]}}'))
    with Running(make_settings(), server) as gateway:
        ((_, tokens),) = list_scored(CHAT, gateway.post(CHAT, {"model": "m", **ASKS[CHAT]}))
        assert [token["logprob"] for token in tokens] == [-9999.0, -9999.0]
        ((_, tokens),) = list_scored(RESPONSES, gateway.post(RESPONSES, {"model": "m", **ASKS[RESPONSES]}))
        assert [token["bytes"] for token in tokens] == [[97], [98]]


@each_case(("path", "stream"), [(path, stream) for path in ASKS for stream in (False, True)])
def test_a_cached_reply_has_them(path: str, stream: bool) -> None:
    server = ModelServer(answer_as_asked)
    with Running(make_settings() | {"cache": {"url": "memory:", "apply": "always"}}, server) as gateway:
        first, second = (
            gateway.post(path, {"model": "m", "temperature": 0, "seed": 1, "stream": mode, **ASKS[path]})
            for mode in (stream, stream)
        )
    assert len(server.requests) == 1
    assert [tokens for _, tokens in list_scored(path, second)] == [tokens for _, tokens in list_scored(path, first)]


def test_a_stored_response_is_read_again_with_them() -> None:
    with Running(make_settings() | {"cache": {"url": "memory:"}}, ModelServer(answer_as_asked)) as gateway:
        made = gateway.post(RESPONSES, {"model": "m", **ASKS[RESPONSES]})
        again = gateway.get(f"{RESPONSES}/{made.json['id']}?stream=true")
    assert list_scored(RESPONSES, again) == list_scored(RESPONSES, made)


def test_a_server_whose_api_has_none_gets_no_parameter_and_the_client_a_warning() -> None:
    message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Yes"}]}
    server = ModelServer(lambda _: httpx.Response(200, json=message | {"stop_reason": "end_turn"}))
    with Running(make_settings("messages"), server) as gateway:
        answer = gateway.post(CHAT, {"model": "m", **ASKS[CHAT]})
    assert answer.json["choices"][0]["logprobs"] is None
    assert "logprobs was not sent" in answer.body.decode()


@each_case(("path", "api"), [(path, api) for path in ASKS for api in ("chat_completions", "responses")])
def test_a_server_that_lacks_the_parameter_is_not_sent_it(path: str, api: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        assert "logprobs" not in request.content.decode()
        return write_responses(body, ()) if api == "responses" else write_chat(body, has_scores=False)

    with Running(make_settings(api, lacks=["logprobs", "top_logprobs"]), ModelServer(answer)) as gateway:
        found = gateway.post(path, {"model": "m", **ASKS[path]})
    assert [tokens for _, tokens in list_scored(path, found)] == [[]]
    assert "logprobs was not sent" in found.body.decode() + found.headers.get("x-parley-warnings", "")


def write_turn(request: httpx.Request) -> httpx.Response:
    """A call with a text before it, and after its result a text."""
    body = json.loads(request.content)
    if any(message["role"] == "tool" for message in body["messages"]):
        return write_chat(body, ("The", " end"))
    function = {"name": body["tools"][0]["function"]["name"], "arguments": "{}"}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    logprobs = {"content": [score("I"), score(" look"), score("<call>")]}
    message = {"role": "assistant", "content": "I look", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "tool_calls"}
    return httpx.Response(200, json={"choices": [choice]})


def test_tokens_of_calls_are_not_among_those_of_the_text() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    with Running(make_settings(), ModelServer(write_turn)) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "tools": [tool], **ASKS[CHAT]})
    assert list_scored(CHAT, answer) == [("I look", [score("I"), score(" look")])]


@each_case("stream", [False, True])
def test_a_fallback_sends_its_own(stream: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content)["model"] == "m":
            return httpx.Response(500, json={"error": {"message": "down"}})
        return answer_as_asked(request)

    settings = make_settings()
    settings["models"] = {"m": {**settings["models"]["m"], "fallbacks": ["n"]}, "n": settings["models"]["m"]}
    with Running(settings, ModelServer(answer)) as gateway:
        found = list_scored(CHAT, gateway.post(CHAT, {"model": "m", "stream": stream, "max_retries": 0, **ASKS[CHAT]}))
    assert [token["token"] for _, tokens in found for token in tokens] == list(TOKENS)
