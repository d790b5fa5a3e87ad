"""One call while its fragments arrive."""

import json

from app.upstream.reply.chunk import FunctionFragment, ToolCallFragment
from app.upstream.reply.partial_tool_call import (
    PartialToolCall,
    clean_name,
    decode_text,
    drop_repetitions,
    get_meaning,
    is_repetition,
)

from tests.each_case import each_case


@each_case(
    "text",
    [
        '{"a": "}", "b": [1, {"c": "\\\\\\""}]} ',
        "[]",
        " \n{}",
        '{"a": "\\\\"}',
        '{"a',
        "{'a': 1}",
        '"{}"',
        "[1]x",
        "1",
        "]",
    ],
)
def test_arguments_are_whole_when_they_are_one_object_list_or_string(text: str) -> None:
    def whole(text: str) -> bool:
        try:
            return isinstance(json.loads(text), dict | list | str)
        except ValueError:
            return False

    at_once, by_characters, at_the_end = PartialToolCall(0), PartialToolCall(0), PartialToolCall(0)
    for place, character in enumerate(text):
        by_characters.add(character)
        at_the_end.add(character)
        assert by_characters.complete() is whole(text[: place + 1])
    at_once.add(text)
    assert at_once.complete() is at_the_end.complete() is whole(text)


def test_an_object_inside_the_arguments_is_not_all_of_them_again() -> None:
    call = PartialToolCall(0)
    call.add('{"a":')
    assert call.add('{"b":1}') == '{"b":1}'
    assert call.add("}") == "}"
    assert call.text == '{"a":{"b":1}}'


def test_a_blank_behind_whole_arguments_leaves_them_complete() -> None:
    call = PartialToolCall(0)
    call.add('{"a":1}')
    assert call.complete()
    call.add("\u00a0")
    assert call.complete()
    call.add("x")
    assert not call.complete()


FOUR_TIMES = json.dumps(json.dumps(json.dumps(json.dumps('{"a":1}'))))
"""An object that is encoded more often than it is decoded."""


@each_case(
    ("text", "decoded"),
    [
        ("", "{}"),
        (" { } ", "{}"),
        ("null", "{}"),
        ('"{}"', "{}"),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ('"\\"{\\\\\\"a\\\\\\":1}\\""', '{"a":1}'),
        ('"plain"', '"plain"'),
        (FOUR_TIMES, FOUR_TIMES),
        ('"[1]"', '"[1]"'),
        ('{"a":1}', '{"a":1}'),
        ('{"a', '{"a'),
        ('"{\\"a"', '"{\\"a"'),
    ],
)
def test_an_object_in_a_string_is_decoded_and_empty_arguments_are_an_object(text: str, decoded: str) -> None:
    assert decode_text(text) == decoded


@each_case(
    ("one", "other", "equal"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1.0 }', True),
        ('{"a":1}', '"{\\"a\\":1}"', True),
        ('{"a":1}', '{"a":2}', False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('" "', "null", True),
        ('"plain"', '"plain"', True),
        ('"plain"', '"other"', False),
        (FOUR_TIMES, FOUR_TIMES, True),
    ],
)
def test_arguments_mean_the_same_whatever_their_spelling(one: str, other: str, equal: bool) -> None:
    assert (get_meaning(one) == get_meaning(other)) is equal
    assert get_meaning(one) is not None


@each_case("text", ["", "{", '{"a":1}x', "[" * 100_000])
def test_a_text_that_is_not_json_has_no_meaning(text: str) -> None:
    assert get_meaning(text) is None


@each_case(
    ("text", "repeats"),
    [
        ('{"a": 1}', True),
        ('{"a":1} {"a":1}', True),
        (" {} ", True),
        ("null", True),
        ("", True),
        ('{"a":2}', False),
        ('{"a":1', False),
        ('{"a":1} x', False),
    ],
)
def test_what_says_the_arguments_again_or_nothing_is_a_repetition(text: str, repeats: bool) -> None:
    meaning = get_meaning('{"a":1}')
    assert meaning is not None
    assert is_repetition(text, meaning) is repeats


@each_case(
    ("text", "kept"),
    [
        ('{"a":1}{"a": 1}', '{"a":1}'),
        (' {"a":1}\n{"a":1}', ' {"a":1}'),
        ('{}{"a":1}', '{"a":1}'),
        ("{} {} {", " {"),
        ('{"a":1}{"a":2}', '{"a":1}{"a":2}'),
        ('{"a":1}{"a":1}x', '{"a":1}{"a":1}x'),
        ('{"a":{}}', '{"a":{}}'),
    ],
)
def test_of_equal_objects_the_first_is_kept_and_empty_ones_before_another_go(text: str, kept: str) -> None:
    assert drop_repetitions(text) == kept


def test_a_name_arrives_in_parts_or_again_as_a_whole() -> None:
    call = PartialToolCall(0)
    for name, so_far in (("get", "get"), ("_time", "get_time"), ("get_time", "get_time"), ("get_times", "get_times")):
        call.add_name(name)
        assert call.name == so_far
    call.add("{")
    call.add_name("x")
    assert call.name == "get_times"


def test_what_a_server_left_of_its_template_is_not_of_the_name() -> None:
    assert clean_name("read<|channel|>commentary") == "read"
    assert clean_name("<|channel|>") == "<|channel|>"


def test_fragments_with_all_arguments_so_far_add_what_is_new() -> None:
    call = PartialToolCall(0)
    added = [call.add(text) for text in ('{"a"', '{"a":', '{"a":1}', '{"a":1}')]
    assert added == ['{"a"', ":", "1}", ""]
    assert call.take_rest() == ""
    assert call.text == '{"a":1}'


def test_the_end_decides_whether_the_last_fragment_was_an_object_inside_or_all_again() -> None:
    inside, again, failed = PartialToolCall(0), PartialToolCall(0), PartialToolCall(0)
    inside.add('{"a":')
    inside.add('{"a":1}')
    inside.add("}")
    assert (inside.text, inside.take_rest()) == ('{"a":{"a":1}}', "")
    for call in (again, failed):
        call.add('{"a":')
        assert call.add('{"a":1}') == ""
    assert (again.complete(), again.take_rest()) == (True, "1}")
    assert failed.take_rest(failed=True) == '{"a":1}'


@each_case(
    ("name", "id_", "arguments", "known_id", "ended"),
    [
        (None, "new", "{}", False, False),
        ("g", "new", "", False, True),
        ("f", "new", "{}", False, True),
        ("g", None, '{"a":1}', False, True),
        ("f", None, '{"a":1}', False, False),
        ("f", None, '{"a":2}', False, True),
        ("f", None, "x", False, False),
        ("g", None, "", True, True),
    ],
)
def test_a_complete_call_is_ended_by_another_name_id_or_object(
    name: str | None, id_: str | None, arguments: str, known_id: bool, ended: bool
) -> None:
    call = PartialToolCall(0)
    call.add_name("f")
    call.add('{"a":1}')
    fragment = ToolCallFragment(0, id_, FunctionFragment(name, arguments))
    assert call.is_ended_by(fragment, known_id) is ended


def test_a_call_that_is_not_complete_goes_on_under_any_name() -> None:
    call = PartialToolCall(0)
    call.add_name("f")
    call.add('{"a":')
    assert not call.is_ended_by(ToolCallFragment(0, None, FunctionFragment("g", "{")), known_id=True)


def test_an_empty_object_goes_on_with_real_arguments_if_the_fragment_names_its_place() -> None:
    call = PartialToolCall(0)
    call.add_name("f")
    call.add("{}")
    text = '{"a":1}'
    assert not call.is_ended_by(ToolCallFragment(0, None, FunctionFragment("f", text)), known_id=False)
    assert call.is_ended_by(ToolCallFragment(None, None, FunctionFragment("f", text)), known_id=False)
    assert not call.is_ended_by(ToolCallFragment(None, None, FunctionFragment("f", "{}")), known_id=False)


def test_a_call_is_ready_when_its_name_and_id_cannot_change() -> None:
    call = PartialToolCall(0)
    call.add_name("f")
    call.add('{"a"')
    call.fragments = 1
    states = [call.ready()]
    call.fragments = 2
    states.append(call.ready())
    call.fragments, call.id = 1, "c"
    states.append(call.ready())
    call.waits_for_answer = True
    states.append(call.ready())
    assert states == [False, True, True, False]


def test_a_string_waits_for_the_end_also_if_other_content_came_after_it() -> None:
    call = PartialToolCall(0)
    call.add_name("f")
    call.sealed = True
    assert (call.add('"{'), call.ready()) == ("", False)
    assert call.add('}"') == ""
    assert call.take_rest() == "{}"
