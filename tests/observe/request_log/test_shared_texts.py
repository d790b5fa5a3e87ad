"""Bodies of requests as differences from earlier ones."""

import json
from typing import Any

from app.observe.request_log.redaction import Edit, apply_edits, find_edits, make_finder, redact_json
from app.observe.request_log.shared_texts import Difference, SharedText, SharedTexts
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

PLACE = ("owner", "client_request")
TAIL = '],"tools":[{"name":"f"}]}'


def remember(body: bytes) -> SharedText:
    return SharedText(1, 0, body)


def compare(text: SharedText, body: bytes) -> Difference:
    texts = SharedTexts(10**6)
    texts.add(PLACE, text, None)
    return texts.compare([PLACE], body)


def rebuild(text: SharedText, found: Difference) -> bytes:
    base = apply_edits(text.raw, text.edits)
    return base[: found.prefix] + found.new + base[len(base) - found.suffix :]


def make_turns(count: int) -> list[bytes]:
    turns = [json.dumps({"role": "user", "content": f'{number} says "so" \\ \n'}) for number in range(count)]
    return [('{"model":"m","messages":[' + ",".join(turns[:number]) + TAIL).encode() for number in range(1, count + 1)]


def test_only_the_new_messages_of_a_turn_are_new() -> None:
    first, second = make_turns(2)
    found = compare(remember(first), second)
    assert found.new == second[len(first) - len(TAIL) : -len(TAIL)]
    assert rebuild(remember(first), found) == second


def test_a_hundred_turns_are_kept_once() -> None:
    texts, new = SharedTexts(10**6), 0
    for number, body in enumerate(make_turns(100)):
        found = texts.compare([PLACE], body)
        new += len(found.new)
        texts.add(PLACE, found.make_text(number + 1, 0, []), found.base)
    assert new < 2 * len(body)


@each_case(
    ("old", "new", "changed"),
    [
        (b'{"a":"one two"}', b'{"a":"one six"}', b'"a":"one six"'),
        (b'["one","one two"]', b'["one","one six"]', b'"one six"'),
        (b'["\\"x"]', b'["\\"y"]', b'"\\"y"'),
        (b'["\\\\","b","x"]', b'["\\\\","b","y"]', b'"y"'),
        (b'["x\\\\"]', b'["y\\\\"]', b'"y\\\\"'),
        (b'{"a":1,"b":"x"}', b'{"a":2,"b":"x"}', b'"a":2'),
        (b'{"one" : "xyz"}', b'{"one": "xyz"}', b'"one": "xyz"'),
        (b'{"one":"xyz"}', b'{"onto":"xyz"}', b'"onto":"xyz"'),
        (b'{"a":"one two"}', b'{"a":"one two","b":1}', b',"b":1'),
        (b'{"a":"x"}', b'{"a":"x"}', b""),
    ],
)
def test_the_borders_lie_outside_of_strings_and_part_no_name_from_its_value(
    old: bytes, new: bytes, changed: bytes
) -> None:
    assert compare(remember(old), new).new == changed


VALUES = st.recursive(
    st.integers() | st.text(alphabet='ab"\\é'), lambda inner: st.lists(inner, max_size=4), max_leaves=12
)


@given(VALUES, VALUES, VALUES)
def test_any_body_is_its_difference_from_any_other(old: Any, new: Any, newest: Any) -> None:
    before = json.dumps({"list": [old], "end": "z"}, ensure_ascii=False).encode()
    after = json.dumps({"list": [old, new], "end": "z"}, ensure_ascii=False).encode()
    text = remember(before)
    found = compare(text, after)
    assert rebuild(text, found) == after
    assert find_strings(found.new) <= find_strings(after)
    second = found.make_text(2, 0, [])
    last = json.dumps({"list": [old, newest], "end": "zz"}, ensure_ascii=False).encode()
    assert rebuild(second, compare(second, last)) == last


def find_strings(part: bytes) -> set[str]:
    """Return the strings of a part of JSON, each of which must be whole."""
    found, place, text = set(), 0, part.decode()
    while (quote := text.find('"', place)) >= 0:
        value, place = json.JSONDecoder().raw_decode(text, quote)
        found.add(value)
    return found


def test_a_string_that_was_edited_is_taken_whole_or_not_at_all() -> None:
    text = SharedText(1, 0, b'{"a":"alice@example.com","b":[1]}', [Edit(6, 23, b"[EMAIL]")])
    found = compare(text, b'{"a":"alice@example.com","b":[1,2]}')
    assert (found.prefix, found.new, found.suffix) == (5 + 9 + 7, b",2", 2)
    found = compare(text, b'{"a":"alice@example.org","b":[1]}')
    assert (found.prefix, found.new, found.suffix) == (1, b'"a":"alice@example.org"', 9)


FIND = make_finder([], personal=True)
FIELDS = st.dictionaries(
    st.sampled_from(["api_key", "api_key2", "a", 'a "b" \\\\', ""]),
    st.sampled_from(["alice@x.org", "bob@y.com", "k", 'a "b" \\\\', "", 1, ["k", "l"], {"api_key": "m"}]),
)


@given(st.lists(st.lists(FIELDS, max_size=3), min_size=1, max_size=6), st.sampled_from([(",", ":"), (" , ", " : ")]))
def test_what_is_kept_of_a_session_is_each_body_without_what_is_found(
    bodies: list[list[dict[str, Any]]], separators: tuple[str, str]
) -> None:
    text, kept = None, b""
    for number, messages in enumerate(bodies):
        body = json.dumps({"m": messages, "end": ["carol@z.net"]}, separators=separators).encode()
        found = Difference(body, body) if text is None else compare(text, body)
        edits = find_edits(found.new, FIND)
        kept = kept[: found.prefix] + apply_edits(found.new, edits) + kept[len(kept) - found.suffix :]
        assert kept == redact_json(body, FIND)
        text = found.make_text(number, 0, edits)
        assert text.edits == find_edits(body, FIND)


def test_a_body_of_another_caller_is_never_the_base() -> None:
    texts = SharedTexts(10**6)
    body = make_turns(9)[-1]
    texts.add(PLACE, remember(body), None)
    assert texts.compare([("other", "client_request")], body).base is None
    assert texts.compare([("owner", "upstream_request"), PLACE], body).base is not None


def test_what_is_remembered_is_bounded() -> None:
    texts = SharedTexts(3 * 5000)
    bodies = [json.dumps([str(number) * 4990]).encode() for number in range(9)]
    for number, body in enumerate(bodies):
        texts.add((str(number), "client_request"), remember(body), None)
    kept = [number for number, body in enumerate(bodies) if texts.compare([(str(number), "client_request")], body).base]
    assert kept == [6, 7, 8] or kept == [7, 8]
    texts.clear()
    assert texts.compare([("8", "client_request")], bodies[8]).base is None
