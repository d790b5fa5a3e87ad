"""What the gateway sent can be posted back as history, in every format, streamed or not: a model server is sent the
same as for OpenAI's form."""

import json
from collections.abc import Iterator

import pytest
from app.formats import FORMATS

from tests.conversations.clients import CALLERS, call, frames, more, sse
from tests.conversations.openai_rules import broken
from tests.conversations.sample_conversations import MODELS, Gateway, Json
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed

REPLIES: dict[str, tuple[Json, ...]] = {
    "thought, text, two calls": (
        {"reasoning_content": "User wants "},
        {"reasoning_content": "weather."},
        {"content": "Checking "},
        {"content": "now."},
        call(0, "call_1", "get_weather", '{"city":'),
        call(1, "call_2", "get_weather", ""),
        more(0, ' "Paris"}'),
        more(1, '{"city": "Rome"}'),
    ),
    "calls alone": (call(0, "a", "get_weather", "{}"), call(1, "b", "get_weather", '{"city":  "é\\u2028"}')),
    "a call without arguments": ({"content": "I look."}, call(0, "a", "get_weather", "")),
    "arguments that are no JSON": (call(0, "a", "get_weather", '{"city": "Pa'),),
    "arguments that are no object": (call(0, "a", "get_weather", "[1]"),),
    "line separators": (
        {"reasoning_content": "a\u2028b"},
        {"content": "c\u2029\x85d 天气"},
        call(0, "a", "get_weather", "{}"),
    ),
    "signatures": (
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln", "index": 0}]},
        call(0, "a", "get_weather", "{}", extra_content={"google": {"thought_signature": "c2ln"}}),
        call(1, "b", "get_weather", "{}"),
    ),
    "a signature that comes late": (
        call(0, "a", "get_weather", "{}"),
        {"tool_calls": [{"index": 0, "extra_content": {"google": {"thought_signature": "c2ln"}}}]},
    ),
    "details without a thought": (
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln", "index": 0}]},
        call(0, "a", "get_weather", "{}"),
    ),
    "a thought and a call": ({"reasoning_content": "hm"}, call(0, "a", "get_weather", "{}")),
    "a text alone": ({"content": "Hello"},),
    "a thought and a text": ({"reasoning_content": "hm"}, {"content": "Hello"}),
    "text behind calls": (call(0, "a", "get_weather", "{}"), {"content": "late"}),
}
SIGNED: tuple[Json, ...] = (
    {"reasoning": "Let ", "reasoning_details": [{"type": "reasoning.text", "text": "Let ", "index": 0}]},
    {"reasoning": "me", "reasoning_details": [{"type": "reasoning.text", "text": "me", "index": 0}]},
    {"reasoning_details": [{"type": "reasoning.text", "signature": "s1", "format": "claude", "index": 0}]},
    {"content": "First."},
    {"reasoning": "Then", "reasoning_details": [{"type": "reasoning.summary", "summary": "Then", "index": 1}]},
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "eA==", "id": "rs_1", "index": 2}]},
    call(0, "a", "get_weather", "{}"),
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "eQ==", "id": "b", "index": 2}]},
    call(1, "b", "get_weather", "{}"),
)
SIGNED_ITEMS: list[Json] = [
    {"type": "reasoning.text", "text": "Let me", "index": 0, "signature": "s1", "format": "claude"},
    {"type": "reasoning.summary", "summary": "Then", "index": 1},
    {"type": "reasoning.encrypted", "data": "eA==", "id": "rs_1", "index": 2},
    {"type": "reasoning.encrypted", "data": "eQ==", "id": "b", "index": 2},
]
"""What the model server of `SIGNED` wants back."""
INTERLEAVED = (
    {"reasoning_content": "r1"},
    {"content": "t1"},
    {"reasoning_content": "r2"},
    {"content": "t2"},
    call(0, "a", "get_weather", "{}"),
)
PROFILE = MODELS["models"]["plain"]["profile"] | {"replay_details": True}
ECHOING = {**MODELS, "models": {"m": {"upstreams": ["local"], "profile": PROFILE}}}
each = each_case("name", REPLIES)
each_form = pytest.mark.parametrize("form", FORMATS)
either = each_case("stream", [False, True], ids=["whole", "stream"])


class EchoGateway(Gateway):
    """A gateway before a model server that answers with `reply_body`."""

    reply_body = b""

    def reply(self, form: str, messages: list[Json], *, stream: bool) -> list[Json]:
        request = {"model": "m", "format": form, "messages": messages, "stream": stream}
        answer = self.running.post("/v1/chat", request)
        assert answer.status == 200, answer.body
        caller = CALLERS[form]
        return caller.streamed(frames(answer)) if stream else caller.whole(answer.json)

    def history(self, form: str, *, stream: bool) -> list[Json]:
        """A question, the reply to it, and results for what it calls."""
        caller = CALLERS[form]
        asked = [caller.ask("And the weather?")]
        history = json.loads(json.dumps([*asked, *self.reply(form, asked, stream=stream)]))
        called = [item for one in self._chunks() for item in one.get("tool_calls", ()) if "id" in item]
        results = {item["id"]: f"sunny {at}" for at, item in enumerate(called)}
        return caller.answer(history, results) if results else history

    def _chunks(self) -> list[Json]:
        lines = [line[6:] for line in self.reply_body.decode().split("\n\n") if line.startswith("data: {")]
        return [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]

    def echoed(self, form: str, *, stream: bool) -> list[Json]:
        history = [*self.history(form, stream=stream), CALLERS[form].ask("Thanks")]
        return self.sent(form, history, "m")


@pytest.fixture(scope="module")
def gateway() -> Iterator[EchoGateway]:
    server = ModelServer(lambda _: streamed(EchoGateway.reply_body))
    with Running(ECHOING, server) as running:
        yield EchoGateway(running, server)


NO_JSON, NO_OBJECT = "arguments that are no JSON", "arguments that are no object"
AS_OBJECTS = ("anthropic", "gemini")
"""Formats that have arguments as JSON values."""
NO_CALLS = {("anthropic", NO_JSON), ("gemini", NO_JSON), ("gemini", NO_OBJECT)}
"""Calls that a format cannot say."""


def respelt(messages: list[Json]) -> list[Json]:
    """With the arguments of calls as these formats give them back."""
    for one in messages:
        for item in one.get("tool_calls", ()):
            item["function"]["arguments"] = json.dumps(json.loads(item["function"]["arguments"]), ensure_ascii=False)
    return messages


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_clients_get_no_call_with_arguments_that_are_no_json(gateway: EchoGateway, stream: bool) -> None:
    EchoGateway.reply_body = sse(*REPLIES[NO_JSON])
    request = {"model": "m", "format": "anthropic", "messages": [CALLERS["anthropic"].ask("And the weather?")]}
    answer = gateway.running.post("/v1/chat", {**request, "stream": stream})
    if stream:
        *_, end, stop = frames(answer)
        assert (end["type"], stop["type"]) == ("message_delta", "message_stop")
        assert end["parley"]["warnings"] == [
            "arguments_valid: false for a: the arguments of 'get_weather' are not JSON"
        ]
    else:
        assert (answer.status, answer.json["error"]["code"]) == (502, "tool_use_failed")


@each
@each_form
@either
def test_a_reply_goes_back_as_it_does_in_openais_form(gateway: EchoGateway, name: str, form: str, stream: bool) -> None:
    if (form, name) in NO_CALLS:
        return
    EchoGateway.reply_body = sse(*REPLIES[name])
    ours = gateway.echoed(form, stream=stream)
    assert broken(ours) is None
    theirs = gateway.echoed("openai", stream=False)
    assert ours == (respelt(theirs) if form in AS_OBJECTS else theirs)


@each_form
@either
def test_a_reply_goes_back_as_the_model_wrote_it(gateway: EchoGateway, form: str, stream: bool) -> None:
    EchoGateway.reply_body = sse(*REPLIES["thought, text, two calls"])
    _, answer, first, second, thanks = gateway.echoed(form, stream=stream)
    arguments = [one["function"]["arguments"] for one in answer.pop("tool_calls")]
    assert answer == {"role": "assistant", "content": "Checking now.", "reasoning_content": "User wants weather."}
    assert arguments == ['{"city": "Paris"}', '{"city": "Rome"}']
    assert first == {"role": "tool", "tool_call_id": "call_1", "content": "sunny 0"}
    assert second == {"role": "tool", "tool_call_id": "call_2", "content": "sunny 1"}
    assert thanks == {"role": "user", "content": "Thanks"}


@each_form
@either
def test_what_a_server_signed_goes_back_to_it_unchanged(gateway: EchoGateway, form: str, stream: bool) -> None:
    EchoGateway.reply_body = sse(*SIGNED)
    sent = gateway.echoed(form, stream=stream)
    answers = [one for one in sent if one["role"] == "assistant"]
    assert [item for one in answers for item in one.get("reasoning_details", ())] == SIGNED_ITEMS


@each
@each_form
def test_the_frames_of_a_reply_make_its_messages(gateway: EchoGateway, name: str, form: str) -> None:
    if (form, name) in NO_CALLS:
        return
    EchoGateway.reply_body = sse(*REPLIES[name])
    whole, stream = gateway.history(form, stream=False), gateway.history(form, stream=True)
    assert gateway.sent(form, whole, "m") == gateway.sent(form, stream, "m")
    if form in ("qwen", "autogen", "agentscope"):
        assert anonymous(stream) == anonymous(whole)


@each_form
@either
def test_a_reply_that_thinks_again_goes_back_whole(gateway: EchoGateway, form: str, stream: bool) -> None:
    EchoGateway.reply_body = sse(*INTERLEAVED)
    sent = gateway.echoed(form, stream=stream)
    assert broken(sent) is None
    answers = [one for one in sent if one["role"] == "assistant"]
    assert "".join(one["content"] for one in answers).replace("\n", "") == "t1t2"
    assert "".join(one["reasoning_content"] for one in answers).replace("\n", "") == "r1r2"
    assert [one["function"]["name"] for one in answers[-1]["tool_calls"]] == ["get_weather"]


@each_form
def test_a_reply_in_another_format_goes_back_in_that_format(gateway: EchoGateway, form: str) -> None:
    EchoGateway.reply_body = sse(*REPLIES["thought, text, two calls"])
    request = {"model": "m", "format": "qwen", "reply_format": form, "stream": False}
    body = gateway.running.post("/v1/chat", {**request, "messages": [CALLERS["qwen"].ask("And the weather?")]}).json
    history = CALLERS[form].answer(CALLERS[form].whole(body), {"call_1": "sunny 0", "call_2": "sunny 1"})
    asked = [CALLERS[form].ask("And the weather?"), *history, CALLERS[form].ask("Thanks")]
    assert gateway.sent(form, asked, "m") == gateway.echoed("openai", stream=False)


def anonymous(messages: list[Json]) -> list[Json]:
    """Without the ids and times of a reply, which are its own."""
    text = json.dumps(
        [{key: one[key] for key in one if key not in ("id", "created_at", "timestamp")} for one in messages]
    )
    found: list[Json] = json.loads(text)
    for one in found:
        if isinstance(one.get("metadata"), dict):
            one["metadata"].pop("parley", None)
    return found
