"""Two requests have one key exactly when the reply to one is an answer to the other."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from app.profiles import KINDS, Profile

from tests.cache.cache_keys import FUNCTIONS, HI, Json, asking, completion_key, key, rich, schema
from tests.cache.conversation import CONVERSATION
from tests.each_case import each_case

PLAIN = Profile()
NOUS = Profile(native_tools=False)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for place, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, (*path, place))
    else:
        yield path


def _changed(body: Json, path: tuple[Any, ...]) -> Json:
    """With another value at `path`; a call and its result are renamed together."""
    changed = deepcopy(body)
    at: Any = changed
    for place in path[:-1]:
        at = at[place]
    value = at[path[-1]]
    if isinstance(value, bool):
        at[path[-1]] = not value
    else:
        at[path[-1]] = value + 1 if isinstance(value, int | float) else f"{value}x"
    if "function_id" in path or path[-2:] == ("function_call", "name") or path[-1] == "name" and path[1] == 4:
        for place in (3, 4):
            changed["messages"][place]["extra"]["function_id"] = at.get("function_id", "call_1")
    return changed


LEAVES = [path for path in _leaves(rich()) if path[-1] not in ("role", "model", "type") and path[0] != "generate_cfg"]


@pytest.mark.many_cases
@each_case("path", LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_every_word_of_the_conversation_counts(path: tuple[Any, ...]) -> None:
    changed = key(_changed(rich(), path))
    if path == ("messages", 4, "name"):  # the server knows whose result it is by the call's id
        assert changed == key(rich())
    else:
        assert changed != key(rich())


def test_roles_and_order_count() -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    others = [
        [turns[2], turns[1], turns[0]],
        turns[:1],
        [turns[0], turns[0], turns[1], turns[2]],
        [{"role": "system", "content": "a"}, turns[2]],
    ]
    found = {key({"messages": messages}) for messages in (turns, *others)}
    assert len(found) == 5
    assert key({**HI, "functions": [schema("a"), schema("b")]}) != key({**HI, "functions": [schema("b"), schema("a")]})


@pytest.mark.parametrize("profile", [PLAIN, KINDS["vllm"], KINDS["ollama"], NOUS, Profile(fncall_prompt_type="qwen")])
def test_a_conversation_has_one_key_in_every_format(profile: Profile) -> None:
    body = {"functions": [schema("weather")], "generate_cfg": {"temperature": 0.5}}
    found = {
        name: key({**body, "format": name, "messages": messages}, profile) for name, messages in CONVERSATION.items()
    }
    assert len(set(found.values())) == 1, found
    assert key({**body, "format": "auto", "messages": CONVERSATION["qwen"]}, profile) in found.values()


def test_the_endpoint_is_not_part_of_the_key() -> None:
    tools = [{"type": "function", "function": schema("weather")}]
    asked = {"model": "m", "messages": CONVERSATION["openai"], "tools": tools, "temperature": 0.5, "top_x": {"a": 1}}
    cfg = {"temperature": 0.5, "extra_body": {"top_x": {"a": 1}}}
    ours = key({"messages": CONVERSATION["qwen"], "functions": [schema("weather")], "generate_cfg": cfg})
    assert completion_key(asked) == ours == completion_key({**asked, "stream": True, "metadata": {"a": "b"}})


@each_case(
    "delivery",
    [
        {"metadata": {"trace": "1"}},
        {"stream": False},
        {"stream_mode": "snapshot"},
        {"completed_bodies": False},
        {"reply_format": "autogen"},
        {"agent_name": "Friday"},
        {"autogen_stream": "compat"},
        {"include_usage": False},
        {"cache": {"mode": "refresh", "ttl_seconds": 5}},
        {"model": None},
    ],
    ids=lambda delivery: next(iter(delivery)),
)
def test_how_the_reply_is_delivered_does_not_count(delivery: Json) -> None:
    assert key({**rich(), **delivery}) == key(rich())


def test_names_ids_and_times_that_are_not_sent_do_not_count() -> None:
    body: Json = {"format": "agentscope", "messages": CONVERSATION["agentscope"]}
    other = deepcopy(body)
    for number, message in enumerate(other["messages"]):
        message |= {"id": f"other-{number}", "timestamp": "1999-01-01 00:00:00.000", "name": "Someone"}
    assert key(other) == key(body)
    assert key(other, Profile(names="all")) != key(body, Profile(names="all"))


def test_tools_are_functions_wrapped_or_not() -> None:
    wrapped = [{"type": "function", "function": schema("a")}]
    assert key({**HI, "tools": wrapped}) == key({**HI, "functions": [schema("a")]})


def _backwards(value: Any) -> Any:
    if isinstance(value, list):
        return [_backwards(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _backwards(item) for name, item in reversed(value.items())}


def test_the_order_of_the_fields_of_a_request_does_not_count() -> None:
    body = asking(rich(), response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": [1]}}})
    cfg = {"generate_cfg": dict(reversed(body["generate_cfg"].items()))}
    assert key(dict(reversed((body | cfg).items()))) == key(body)
    messages = {"messages": [dict(reversed(message.items())) for message in body["messages"]]}
    assert key(body | messages) == key(body)


def test_the_order_of_keys_in_a_value_counts() -> None:
    """A model that is held to a schema writes in that order: a thought before an answer, or behind it."""
    body = asking(HI, response_format={"type": "json_schema", "json_schema": {"schema": schema("n")["parameters"]}})
    assert key(_backwards(body)) != key(body)
    assert key(_backwards({**HI, **FUNCTIONS})) != key({**HI, **FUNCTIONS})


EQUAL: list[Any] = [
    1,
    1.0,
    True,
    0,
    0.0,
    -0.0,
    False,
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    [1],
    [True],
    {"a": 1.0, "b": 2},
]


def test_values_that_are_equal_but_not_the_same_have_different_keys() -> None:
    assert len({key(asking(HI, extra_body={"x": value})) for value in EQUAL}) == len(EQUAL)
    functions = [{**schema("f"), "parameters": {"type": "object", "default": value}} for value in EQUAL]
    assert len({key({**HI, "functions": [function]}) for function in functions}) == len(EQUAL)


def test_a_key_is_that_of_the_form_in_which_a_value_is_sent() -> None:
    def write(value: str) -> str:
        cfg = f'{{"extra_body": {{"x": {value}}}}}'
        return key({**HI, "generate_cfg": json.loads(cfg)})

    assert write('{"a":1e3, "b":"\\u0041"}') == write('{ "a": 1000.0, "b": "A" }')
