"""What the chaos run's model servers write of a reply is what the gateway reads, in each API, whole and streamed."""

import json
import random
from typing import Any

import pytest
from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Failed, Finish
from app.upstream.api import find_api
from chaos_apis import APIS
from chaos_loops import answer_turn
from chaos_replies import Answer, Question, answer

PROMPT = Question("one", "call", 40, 0).prompt
LOOP = Question("two", "loop", 40, 0).prompt
REPLIES = [answer(PROMPT, "0" * 8), answer_turn(LOOP, 0, ())]


def read(api: str, data: bytes) -> list[Event]:
    reader, assembler = find_api(api).make_reader("r")
    events = assembler.feed(reader.feed(data))
    if not assembler.ended:
        events += assembler.feed(reader.close(clean=True))
    return events + assembler.close(reader.junk) if not assembler.ended else events


def describe(events: list[Event]) -> Answer:
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    texts = {kind: "".join(one.text for one in accumulator.messages if one.kind == kind) for kind in ("content",)}
    thoughts = "".join(one.text for one in accumulator.messages if one.kind == "reasoning_content")
    calls = tuple((one.id, one.name, one.text) for one in accumulator.messages if one.kind == "function_call")
    end = events[-1]
    assert isinstance(end, Finish) and end.usage is not None
    return Answer(thoughts, texts["content"], "", end.usage["prompt_tokens"], end.usage["completion_tokens"], calls)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("reply", REPLIES, ids=["call", "loop"])
def test_a_reply_is_read_as_it_was_computed(api: str, reply: Answer) -> None:
    wanted = Answer(reply.reasoning, reply.content, "", reply.prompt_tokens, reply.completion_tokens, reply.calls)
    assert describe(read(api, json.dumps(APIS[api].write_whole(reply, "m")).encode())) == wanted
    assert describe(read(api, b"".join(APIS[api].write_events(reply, "m", random.Random(1))))) == wanted


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
    turn = {"role": "assistant", "tool_calls": [called]}
    assert APIS["chat_completions"].read_messages({"messages": chat}) == chat
    assert APIS["responses"].read_messages({"input": items}) == [chat[0], turn, chat[2]]
    assert APIS["messages"].read_messages({"messages": blocks}) == [chat[0], turn, chat[2]]
