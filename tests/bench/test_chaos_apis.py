"""What the chaos run's model servers write of a reply is what the gateway reads, in each API, whole and streamed."""

import json
import random
from typing import Any

import chaos_apis
import pytest
from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Failed, Finish
from app.upstream.api import find_api
from chaos_apis import APIS
from chaos_loops import answer_turn
from chaos_replies import Answer, Question, answer, spell_like

PROMPT = Question("one", "call", 40, 0).prompt
LOOP = Question("two", "loop", 40, 0).prompt
REPLIES = [answer(PROMPT, "0" * 8), answer_turn(LOOP, 0, ())]


def read(api: str, data: bytes) -> list[Event]:
    reader, assembler = find_api(api).make_reader("r")
    events = assembler.feed(reader.feed(data))
    if not assembler.ended:
        events += assembler.feed(reader.close(clean=True))
    return events + assembler.close(reader.junk) if not assembler.ended else events


def describe(events: list[Event], wanted: Answer) -> Answer:
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    texts = {kind: "".join(one.text for one in accumulator.messages if one.kind == kind) for kind in ("content",)}
    thoughts = "".join(one.text for one in accumulator.messages if one.kind == "reasoning_content")
    called = [one for one in accumulator.messages if one.kind == "function_call"]
    spelled = {spell_like(arguments, one.text): arguments for _, _, arguments in wanted.calls for one in called}
    calls = tuple((one.id, one.name, spelled.get(one.text, one.text)) for one in called)
    end = events[-1]
    assert isinstance(end, Finish) and end.usage is not None
    return Answer(thoughts, texts["content"], "", end.usage["prompt_tokens"], end.usage["completion_tokens"], calls)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("reply", REPLIES, ids=["call", "loop"])
def test_a_reply_is_read_as_it_was_computed(api: str, reply: Answer) -> None:
    wanted = Answer(reply.reasoning, reply.content, "", reply.prompt_tokens, reply.completion_tokens, reply.calls)
    assert describe(read(api, json.dumps(APIS[api].write_whole(reply, "m")).encode()), wanted) == wanted
    assert describe(read(api, b"".join(APIS[api].write_events(reply, "m", random.Random(1)))), wanted) == wanted


@pytest.mark.parametrize("api", APIS)
def test_an_error_in_a_stream_is_one_for_the_gateway(api: str) -> None:
    begun = next(APIS[api].write_events(REPLIES[0], "m", random.Random(1)))
    *_, end = read(api, begun + APIS[api].write_error("broken on purpose"))
    assert isinstance(end, Failed)
    assert end.fault.message == "broken on purpose"


def test_the_conversation_of_a_request_is_the_same_in_each_api() -> None:
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Well", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c", "content": "seen"},
    ]
    items = [
        {"type": "message", "role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "content": "Well"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "seen"}]},
    ]
    use = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "seen"}
    blocks: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Well"}, use]},
        {"role": "user", "content": [result]},
    ]
    call = {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, "thoughtSignature": "eA=="}
    response = {"id": "c", "name": "f", "response": {"result": "seen"}}
    contents: list[dict[str, Any]] = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"text": "Well"}, call]},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]
    turn = {"role": "assistant", "tool_calls": [called]}
    assert APIS["chat_completions"].read_messages({"messages": chat}) == chat
    assert APIS["responses"].read_messages({"input": items}) == [chat[0], turn, chat[2]]
    assert APIS["messages"].read_messages({"messages": blocks}) == [chat[0], turn, chat[2]]
    assert APIS["gemini"].read_messages({"contents": contents}) == [chat[0], turn, chat[2]]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("streams", [False, True])
def test_a_server_finds_what_a_request_asks_of_which_api(api: str, streams: bool) -> None:
    path = f"/v1{find_api(api).find_path('m', streams=streams)}"
    assert chaos_apis.find_api(path) is APIS[api]
    if api == "gemini":
        assert APIS[api].read_request(path, {}) == {"model": "m", "stream": streams}


def test_arguments_may_have_lost_their_white_space_but_nothing_else() -> None:
    want = '{"text": "a: b", "n": [1, 2]}'
    assert spell_like(want, '{"text":"a: b","n"') == '{"text":"a: b","n":[1,2]}'
    for got in ("", '{"text": "a', '{"text":"a:b'):
        assert spell_like(want, got) == want
