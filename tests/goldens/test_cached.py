"""Qwen-Agent's cache, against the gateway's: which call asks the server, and what is said."""

import asyncio
from typing import Any

import pytest
from app.errors import ParleyError

from tests.cache.cache_keys import key
from tests.goldens.cached_calls import DIFFERENT, KEYS, load_cached, load_keys, requests
from tests.goldens.expectations import Json
from tests.goldens.golden_runner import load_all_verdicts, of_the_web, play_calls

CASES = load_cached()


SAME = {"stream": True, "stream_options": {"include_usage": True}}


def _without_ids(messages: list[Json] | None) -> list[Json]:
    """Without ids, which each side makes for itself, and without what is empty."""
    return [{name: value for name, value in message.items() if name != "extra"} for message in messages or ()]


@pytest.mark.parametrize("name", CASES)
def test_a_call_is_answered_from_the_cache_where_qwen_agent_does_or_as_the_table_says(name: str) -> None:
    case, want = CASES[name], DIFFERENT.get(name)
    calls = asyncio.run(play_calls(case))
    assert tuple(len(call.requests) for call in calls) == requests(name, case)
    messages = [call["final"] for call in case["calls"]] if want is None or want.messages is None else want.messages
    assert [_without_ids(call.messages) for call in calls] == [_without_ids(one) for one in messages]
    assert [call.error for call in calls] == [None] * len(calls)
    for asked, call in zip(case["calls"], calls, strict=True):
        sent = [exchange["request"]["body"] | SAME for exchange in asked["upstream"]]
        assert call.bodies[: len(sent)] == sent[: len(call.bodies)]


def test_the_table_of_cached_calls_names_what_differs() -> None:
    verdicts = load_all_verdicts()
    assert {name for name in CASES if "fix" in (verdicts[name]["request"], verdicts[name]["output"])} == set(DIFFERENT)


def _key(entry: Json) -> str:
    functions = {} if entry["functions"] is None else {"functions": entry["functions"]}
    cfg: dict[str, Any] = {} if entry["extra_generate_cfg"] is None else {"generate_cfg": entry["extra_generate_cfg"]}
    return key({"model": "m", "messages": [of_the_web(one) for one in entry["messages"]], **functions, **cfg})


def test_conversations_with_different_keys_in_qwen_agent_have_different_keys_or_a_reason() -> None:
    entries = load_keys()
    assert len({entry["key"] for entry in entries}) == len(entries)
    with pytest.raises(ParleyError):
        _key(entries[3])
    assert _key(entries[0]) == _key(entries[1])
    assert _key(entries[0]) != _key(entries[2])
    assert set(KEYS.values()) == {1, 3}
