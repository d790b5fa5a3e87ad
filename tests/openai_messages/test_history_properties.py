"""Any history that Qwen-Agent can have made becomes a list that OpenAI's rules allow."""

from typing import Any

import msgspec
from app.profiles import KINDS
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.upstream.sample_histories import Json, answers, calls, returns, sent, thinks, user

NAMES = st.sampled_from(["f", "g", "auto"])
IDS = st.sampled_from([None, None, "1", "1_2", "a", "call_x"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
TURNS = st.sampled_from([None, None, "t1", "t2"])
profiles = st.sampled_from(
    [KINDS[kind].model_dump() for kind in ("openai_compatible", "mistral", "deepseek", "minimax")]
)


@st.composite
def turns(draw: st.DrawFn) -> list[Json]:
    """One turn: thoughts and texts, calls, and a result for each call, by id where it has one of its own."""
    turn = draw(TURNS)
    steps = [thinks(draw(TEXTS), turn)] if draw(st.booleans()) else []
    steps += [answers(text, turn) for text in draw(st.lists(TEXTS, max_size=2))]
    asked = draw(st.lists(st.tuples(NAMES, TEXTS, IDS), max_size=3))
    ids = [id for _, _, id in asked]
    steps += [calls(name, arguments, id, turn) for name, arguments, id in asked]
    if draw(st.booleans()) and asked:
        steps.append(answers(draw(TEXTS), turn))
    results = [returns(name, draw(TEXTS), id if ids.count(id) == 1 else None) for name, _, id in asked]
    return steps + (draw(st.permutations(results)) if None not in ids and len(set(ids)) == len(ids) else results)


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    history: list[Json] = []
    for turn in draw(st.lists(turns(), min_size=1, max_size=4)):
        history += [user(draw(TEXTS)), *turn]
    return history


def ids(messages: list[Json]) -> list[str]:
    return [call["id"] for message in messages for call in message.get("tool_calls", ())]


@given(histories(), profiles)
@examples(20)
def test_every_call_is_answered_directly_behind_its_message(history: list[Json], profile: dict[str, Any]) -> None:
    messages = sent(*history, **profile)
    assert len(ids(messages)) == len(set(ids(messages)))
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = {call["id"] for call in message.get("tool_calls", ())}
            assert "content" in message
    assert not waiting


@given(histories())
@examples(20)
def test_equal_histories_give_equal_bytes(history: list[Json]) -> None:
    again = msgspec.json.decode(msgspec.json.encode(history))
    assert msgspec.json.encode(sent(*history)) == msgspec.json.encode(sent(*again))


@given(histories(), histories())
@examples(20)
def test_what_is_appended_changes_no_earlier_message(history: list[Json], more: list[Json]) -> None:
    before = sent(*history)
    assert sent(*history, *more)[: len(before)] == before


@given(histories())
@examples(20)
def test_no_text_and_no_call_is_lost(history: list[Json]) -> None:
    messages = sent(*history)
    asked = [message["function_call"]["name"] for message in history if "function_call" in message]
    assert [call["function"]["name"] for message in messages for call in message.get("tool_calls", ())] == asked
    said = "".join(message["content"] or "" for message in messages if message["role"] != "tool")
    wanted = "".join(message["content"] for message in history if message["role"] in ("user", "assistant"))
    assert sorted(said.replace("\n", "")) == sorted(wanted.replace("\n", ""))
