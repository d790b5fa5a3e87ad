"""Media that a model does not take, described by another model."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access import hash_key

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

Json = dict[str, Any]
PIXELS = {
    name: f"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42m{rest}"
    for name, rest in (
        ("blue", "M4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"),
        ("red", "P4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"),
    )
}
TURN: Json = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE: Json = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
KEYS = {name: f"key-of-{name}-00001" for name in ("a", "b")}


class Models(ModelServer):
    """`vl` names the colour of an image; the other model answers."""

    def __init__(self, answer: Callable[[Json], httpx.Response | None] = lambda body: None) -> None:
        super().__init__(lambda request: self._reply(json.loads(request.content)))
        self._special = answer

    def _reply(self, body: Json) -> httpx.Response:
        special = self._special(body)
        if special is not None:
            return special
        text = "Done."
        if body["model"] == "vl":
            url = json.dumps(body["messages"])
            text = "A blue\nsquare." if PIXELS["blue"] in url else "A red one."
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        return streamed(*(f"data: {json.dumps(one)}\n\n".encode() for one in (chunk, TURN, USAGE)), b"data: [DONE]\n\n")

    def sent(self, model: str) -> list[Json]:
        return [body for body in map(json.loads, (one.content for one in self.requests)) if body["model"] == model]


def gateway(models: Models, api: str = "chat_completions", **settings: Any) -> Running:
    tree = {
        "upstreams": {
            "up": {"base_url": "http://model.test/v1", "kind": "vllm"},
            "own": {"base_url": "http://model.test/v1", "kind": "vllm", "api": api},
        },
        "models": {
            "text": {"upstreams": ["own"], "describe_media_with": "vl", "profile": {"media": []}},
            "vl": {"upstreams": ["up"], "profile": {"media": ["image"]}},
        },
        "server": {"log_level": "error"},
    }
    return Running({**tree, **settings}, models)


def show(*names: str) -> list[Json]:
    images = [{"type": "image_url", "image_url": {"url": PIXELS[name]}} for name in names]
    return [{"role": "user", "content": [*images, {"type": "text", "text": "What is it?"}]}]


def ask(running: Running, messages: list[Json], headers: Json | None = None, **body: Any) -> Answer:
    return running.post("/v1/chat/completions", {"model": "text", "messages": messages, **body}, headers)


def test_equal_media_are_described_once_in_a_session() -> None:
    models = Models()
    with gateway(models) as running:
        first = ask(running, show("blue", "red", "blue"))
        more = [*show("blue", "red", "blue"), {"role": "assistant", "content": "Ok."}, *show("red")]
        ask(running, more)
    assert len(models.sent("vl")) == 2
    assert models.sent("text")[0]["messages"][0]["content"] == (
        "<image 1: A blue square.>\n<image 2: A red one.>\n<image 3: A blue square.>\nWhat is it?"
    )
    assert models.sent("text")[1]["messages"][0] == models.sent("text")[0]["messages"][0]
    assert models.sent("text")[1]["messages"][2]["content"] == "<image 4: A red one.>\nWhat is it?"
    assert first.json["usage"]["total_tokens"] == 15
    (warning,) = first.json["warnings"]
    assert "3 media" in warning and "'vl'" in warning


def test_the_request_for_words_has_the_medium_and_the_prompt() -> None:
    models = Models()
    settings = {"prompt": "Look.", "task_aware": True, "max_tokens": 77}
    with gateway(models, media_descriptions=settings) as running:
        ask(running, show("blue"))
    (sent,) = models.sent("vl")
    assert (sent["temperature"], sent["max_tokens"]) == (0, 77)
    (message,) = sent["messages"]
    image, text = message["content"]
    assert image["image_url"]["url"] == PIXELS["blue"]
    assert text["text"].startswith("Look.") and text["text"].endswith("What is it?")


def test_models_that_see_are_left_alone() -> None:
    models = Models()
    with gateway(models) as running:
        running.post("/v1/chat/completions", {"model": "vl", "messages": show("blue")})
    (sent,) = models.sent("vl")
    assert sent["messages"][0]["content"][0]["type"] == "image_url"


def refuse(status: int) -> Callable[[Json], httpx.Response | None]:
    return lambda body: (
        httpx.Response(status, json={"error": {"message": "no eyes"}}) if body["model"] == "vl" else None
    )


@each_case("status", [400, 500])
def test_a_failure_is_said_in_the_place_of_the_medium_and_is_not_kept(status: int) -> None:
    models = Models(refuse(status))
    with gateway(models) as running:
        first = ask(running, show("blue"))
        count = len(models.sent("vl"))
        ask(running, show("blue"))
    assert "[image 1 could not be described: " in models.sent("text")[0]["messages"][0]["content"]
    assert len(models.sent("vl")) == 2 * count
    assert any("image 1" in warning for warning in first.json["warnings"])


def test_the_operator_may_want_a_request_refused_that_cannot_be_described() -> None:
    models = Models(refuse(400))
    with gateway(models, media_descriptions={"on_failure": "refuse"}) as running:
        answer = ask(running, show("blue"))
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (400, "media_unavailable")
    assert error["param"] == "messages[0].content[0].image_url" and not models.sent("text")


def test_the_newest_media_are_described_if_there_are_too_many() -> None:
    models = Models()
    with gateway(models, media_descriptions={"max_items": 1}) as running:
        ask(running, show("blue", "red"))
    text = models.sent("text")[0]["messages"][0]["content"]
    assert text.startswith("[image 1 could not be described: ") and "<image 2: A red one.>" in text


def test_a_model_that_says_nothing_or_too_late_has_not_described() -> None:
    def say_nothing(body: Json) -> httpx.Response | None:
        lines = b"data: " + json.dumps(TURN).encode() + b"\n\n"
        return streamed(lines, b"data: [DONE]\n\n") if body["model"] == "vl" else None

    models = Models(say_nothing)
    with gateway(models) as running:
        ask(running, show("blue"))
    assert "could not be described" in models.sent("text")[0]["messages"][0]["content"]

    class Slow(Models):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await request.aread()
            if json.loads(request.content)["model"] == "vl":
                await asyncio.sleep(60)
            return await super().handle_async_request(request)

    slow = Slow()
    with gateway(slow, media_descriptions={"timeout_seconds": 0.05}) as running:
        ask(running, show("blue"))
    assert "did not answer within 0.05 s" in slow.sent("text")[0]["messages"][0]["content"]


@each_case("api", ["messages", "responses"])
def test_a_body_of_the_servers_own_api_is_translated(api: str) -> None:
    models = Models(
        lambda body: httpx.Response(400, json={"error": {"message": "x"}}) if body["model"] != "vl" else None
    )
    source = {"type": "base64", "media_type": "image/png", "data": PIXELS["blue"].partition(",")[2]}
    with gateway(models, api) as running:
        if api == "messages":
            content = [{"type": "image", "source": source}, {"type": "text", "text": "What?"}]
            body: Json = {"max_tokens": 9, "messages": [{"role": "user", "content": content}]}
        else:
            body = {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PIXELS["blue"]}]}]}
        running.post(f"/v1/{api}", {"model": "text", **body})
    (sent,) = models.sent("text")
    assert "<image 1: A blue square.>" in json.dumps(sent) and source["data"] not in json.dumps(sent)


def test_descriptions_are_the_callers_own_and_need_no_right() -> None:
    keys = {name: {"sha256": hash_key(key), "models": ["text"]} for name, key in KEYS.items()}
    models = Models()
    with gateway(models, keys=keys, usage={"url": "memory:"}) as running:
        headers = [{"authorization": f"Bearer {key}"} for key in KEYS.values()]
        assert ask(running, show("blue"), headers[0]).status == 200
        assert ask(running, show("blue"), headers[0]).status == 200
        assert ask(running, show("blue"), headers[1]).status == 200
        rows = running.get("/v1/usage?group_by=model", headers[0]).json["data"]
    assert len(models.sent("vl")) == 2
    assert {row["model"]: (row["requests"], row["input_tokens"]) for row in rows} == {"text": (2, 20), "vl": (1, 10)}


def test_the_list_says_that_images_may_be_sent() -> None:
    with gateway(Models()) as running:
        (model,) = [one for one in running.get("/v1/models").json["data"] if one["id"] == "text"]
    assert model["parley"]["media"] == ["image"]


CONVERSATIONS = Path(__file__).parents[1] / "conversations" / "picture_of_a_tool"
OWN_PATHS = {
    "anthropic": ("/v1/messages", "messages"),
    "responses": ("/v1/responses", "input"),
    "gemini": ("/v1beta/models/text:generateContent", "contents"),
    "openai": ("/v1/chat/completions", "messages"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", sorted(one.stem for one in CONVERSATIONS.glob("*.json")))
def test_a_reply_says_which_model_described_its_media_in_every_format(name: str, stream: bool) -> None:
    path, field = OWN_PATHS.get(name, ("/v1/chat", "messages"))
    body = {"model": "text", field: json.loads((CONVERSATIONS / f"{name}.json").read_text()), "stream": stream}
    body |= {"format": name} if path == "/v1/chat" else {"max_tokens": 9} if name == "anthropic" else {}
    if name == "gemini":
        del body["stream"], body["model"]
        path = path.replace("generate", "streamGenerate") + "?alt=sse" if stream else path
    with gateway(Models()) as running:
        texts = [running.post(path, body).body.decode() for _ in range(2)]
    assert ['"descriptions":[{"model":"vl","cached":false}]' in text for text in texts] == [True, False]
    assert ['"descriptions":[{"model":"vl","cached":true}]' in text for text in texts] == [False, True]


def test_what_was_not_described_is_no_description_and_equal_media_count_each() -> None:
    def refuse_red(body: Json) -> httpx.Response | None:
        red = body["model"] == "vl" and PIXELS["red"] in json.dumps(body)
        return httpx.Response(400, json={"error": {"message": "no eyes"}}) if red else None

    with gateway(Models(refuse_red)) as running:
        answer = ask(running, show("blue", "red", "blue"))
        text = ask(running, [{"role": "user", "content": "Hi"}])
    assert answer.json["descriptions"] == [{"model": "vl", "cached": False}] * 2
    assert "descriptions" not in text.json


def test_a_medium_that_comes_again_is_among_the_newest() -> None:
    models = Models()
    with gateway(models, media_descriptions={"max_items": 1}) as running:
        ask(running, show("blue", "red", "blue"))
    text = models.sent("text")[0]["messages"][0]["content"]
    assert text.startswith("<image 1: A blue square.>\n[image 2 could not") and "<image 3: A blue square.>" in text
