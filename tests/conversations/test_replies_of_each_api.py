"""A reply of a server of any API, in any format, streamed or whole, says the same; and so does what is sent back."""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.chat.messages import Message, Reasoning, Text, ToolCall
from app.formats import FORMATS
from chaos_apis import APIS, find_api
from chaos_replies import Answer as Spoken
from msgspec.structs import replace

from tests.conversations.clients import CALLERS, frames
from tests.conversations.sample_conversations import Json, normalize_messages
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

CITIES = {"call_1": "Paris", "call_2": "Rome"}
CALLS = tuple((id_, "get_weather", json.dumps({"city": city})) for id_, city in CITIES.items())
SPOKEN = Spoken("User wants 天气.", "Checking now.", "", 30, 25, CALLS)
EXPECTED = [
    Message("assistant", (Reasoning(SPOKEN.reasoning),)),
    Message("assistant", (Text(SPOKEN.content),)),
    *(Message("assistant", (ToolCall(name, arguments, id_),)) for id_, name, arguments in CALLS),
]
SETTINGS: Json = {
    "upstreams": {api: {"base_url": f"http://{api.replace('_', '-')}.test/v1", "api": api} for api in APIS},
    "models": {api: {"upstreams": [api]} for api in APIS},
}
FUNCTION = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
each_form = each_case("form", FORMATS)
each_api = each_case("api", APIS)


def speak(request: httpx.Request) -> httpx.Response:
    api = find_api(request.url.path)
    asked = api.read_request(request.url.path, json.loads(request.content))
    if not asked.get("stream"):
        return httpx.Response(200, json=api.write_whole(SPOKEN, asked["model"]))
    return streamed(*api.write_events(SPOKEN, asked["model"], random.Random(1)))


@pytest.fixture(scope="module")
def server() -> ModelServer:
    return ModelServer(speak)


@pytest.fixture(scope="module")
def running(server: ModelServer) -> Iterator[Running]:
    with Running(SETTINGS, server) as running:
        yield running


def ask(running: Running, api: str, form: str, messages: list[Any], *, stream: bool) -> Answer:
    body = {"model": api, "format": form, "messages": messages, "functions": [FUNCTION], "stream": stream}
    answer = running.post("/v1/chat", body)
    assert answer.status == 200, answer.body
    return answer


def read(form: str, answer: Answer, *, stream: bool) -> list[Json]:
    """The messages of a reply, as a client of its format keeps them."""
    kept = CALLERS[form].streamed(frames(answer)) if stream else CALLERS[form].whole(answer.json)
    copied: list[Json] = json.loads(json.dumps(kept))
    return copied


def normalize(form: str, messages: list[Json]) -> list[Message]:
    """What a reply says. In some APIs and formats arguments are an object, whose white space is lost; some calls have a
    signature for their server."""
    found = normalize_messages(form, [CALLERS[form].ask("Weather?"), *messages])[1:]
    return [replace(one, parts=tuple(map(_plain, one.parts))) for one in found]


def _plain(part: Any) -> Any:
    if not isinstance(part, ToolCall):
        return part
    return replace(part, arguments=json.dumps(json.loads(part.arguments)), extra={})


@each_api
@each_form
@each_case("stream", [False, True])
def test_a_reply_says_the_same_whatever_its_server_speaks(running: Running, api: str, form: str, stream: bool) -> None:
    answer = ask(running, api, form, [CALLERS[form].ask("Weather?")], stream=stream)
    assert normalize(form, read(form, answer, stream=stream)) == EXPECTED


@each_api
@each_form
@each_case("stream", [False, True])
def test_the_next_turn_has_the_calls_and_their_results(
    running: Running, server: ModelServer, api: str, form: str, stream: bool
) -> None:
    question = [CALLERS[form].ask("Weather?")]
    reply = read(form, ask(running, api, form, question, stream=stream), stream=stream)
    history = CALLERS[form].answer([*question, *reply], {id_: f"sun in {city}" for id_, city in CITIES.items()})
    ask(running, api, form, history, stream=stream)
    first, turn, *results = APIS[api].read_messages(json.loads(server.requests[-1].content))
    assert (first["role"], turn["role"]) == ("user", "assistant")
    calls = {call["id"]: json.loads(call["function"]["arguments"])["city"] for call in turn["tool_calls"]}
    assert calls == CITIES
    assert [(one["tool_call_id"], one["content"]) for one in results] == [
        (id_, f"sun in {city}") for id_, city in CITIES.items()
    ]
    if api == "gemini":
        model = json.loads(server.requests[-1].content)["contents"][1]["parts"]
        signed = [part["thoughtSignature"] for part in model if "thoughtSignature" in part]
        assert signed == ["b3BhcXVl"]
