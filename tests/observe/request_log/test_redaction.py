"""What is removed from bodies before they are kept."""

import json
from collections.abc import Sequence
from typing import Any

from app.observe.request_log.bytes_test import make_bytes_test
from app.observe.request_log.redaction import (
    Edit,
    Span,
    add_values,
    is_stream,
    make_finder,
    move_parts,
    redact_json,
    redact_plain,
    redact_stream,
    redact_text,
    sort_spans,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

FIND = make_finder(["the-key-of-the-server"], personal=True)
KEYS_ONLY = make_finder([], personal=False)
MAY_HOLD = make_bytes_test([], personal=False)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"


@each_case(
    ("body", "kept"),
    [
        ({"authorization": "opaque", "b": "c"}, {"authorization": "[redacted]", "b": "c"}),
        ({"headers": {"X-Api-Key": "opaque 1"}}, {"headers": {"X-Api-Key": "[redacted]"}}),
        ({"authorization_token": "opaque\nvalue"}, {"authorization_token": "[redacted]"}),
        ({"a": '{"clientSecret": "opaque", "b": 1}'}, {"a": '{"clientSecret": "[redacted]", "b": 1}'}),
        ({"a": json.dumps({"b": '{"password":"x"}'})}, {"a": json.dumps({"b": '{"password":"[redacted]"}'})}),
        ({"properties": {"password": {"type": "string"}}}, {"properties": {"password": {"type": "string"}}}),
        ({"required": ["password", "x"]}, {"required": ["password", "x"]}),
        ({"password": "", "token": "the"}, {"password": "", "token": "the"}),
        ({"a": "the password: opaque"}, {"a": "the password: opaque"}),
        ({"authorization": 5, "b": "c"}, {"authorization": 5, "b": "c"}),
    ],
)
def test_the_texts_of_fields_of_credentials_are_removed_whatever_they_look_like(body: Any, kept: Any) -> None:
    for separators in ((",", ":"), (", ", ": "), (" , ", "  :  ")):
        data = json.dumps(body, separators=separators).encode()
        assert json.loads(redact_json(data, KEYS_ONLY)) == kept
        assert MAY_HOLD(data) or kept == body
        stream = b"data: " + data + b"\n\n"
        redacted, parts = redact_stream(stream, [(1.0, len(stream))], KEYS_ONLY)
        assert json.loads(redacted[6:]) == kept
        assert parts == ((1.0, len(redacted)),)


@each_case(
    ("text", "kept"),
    [
        ("to alice@example.com.", "to [EMAIL]."),
        ("<alice+x@mail.example.co.uk>", "<[EMAIL]>"),
        ("card 4111 1111 1111 1111!", "card [CARD]!"),
        ("card 4111-1111-1111-1112", "card 4111-1111-1111-1112"),
        ("DE89 3704 0044 0532 0130 00 it is", "[IBAN] it is"),
        ("DE88370400440532013000", "DE88370400440532013000"),
        ("the-key-of-the-server", "[redacted]"),
        ("sk-proj-abcdefghijklmnop", "[redacted]"),
        ("task-abcdefghijklmnopqrstuvw", "task-abcdefghijklmnopqrstuvw"),
        ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
        ("ghp_" + "a" * 36, "[redacted]"),
        ("Authorization: Bearer abcdefghijklmnop1", "Authorization: Bearer [redacted]"),
        ("https://me:secret@host/x", "https://[redacted]@host/x"),
        (f"token {JWT} ", "token [redacted] "),
        (PEM, "[redacted]"),
        ("@x.de and x@y", "@x.de and x@y"),
        ("a 3.14159265358979 b", "a 3.14159265358979 b"),
        ("commit 4f2a9c0d11e5b7a6c8d9e0f1a2b3c4d5e6f70819", "commit 4f2a9c0d11e5b7a6c8d9e0f1a2b3c4d5e6f70819"),
        ("short", "short"),
        ('{"to": "\\u0061lice@example.com"}', '{"to": "[EMAIL]"}'),
        ('["{\\"to\\": \\"alice\\\\u0040example.com\\"}"]', '["{\\"to\\": \\"[EMAIL]\\"}"]'),
        ('{"x": "\\u00fc", "to": "jos\\u00e9@example.com."}', '{"x": "\\u00fc", "to": "[EMAIL]."}'),
        ("https:\\/\\/me:secret@host\\/x", "https:\\/\\/[redacted]@host\\/x"),
        ("C:\\u0040b", "C:\\u0040b"),
    ],
)
def test_keys_and_personal_data_are_removed_from_a_text(text: str, kept: str) -> None:
    assert redact_text(text, FIND) == kept


@each_case(
    ("text", "kept"),
    [
        ("Ann", "[PERSON]"),
        ("Ann's friend Anna, Ann-Marie", "[PERSON]'s friend Anna, [PERSON]-Marie"),
        ("Jo Ann Lee and Ann Lee", "Jo [PERSON] and [PERSON]"),
        ("李明说, alice@example.com", "[PERSON]说, [EMAIL]"),
        ("at +1 (555) 0100 now", "at [PHONE] now"),
        ("Annex", "Annex"),
    ],
)
def test_values_that_a_service_found_are_removed(text: str, kept: str) -> None:
    values = {"Ann": "PERSON", "Ann Lee": "PERSON", "李明": "PERSON", " +1 (555) 0100 ": "PHONE", " ": "PERSON"}
    assert redact_text(text, add_values(FIND, values)) == kept
    body = json.dumps({"a": text}, ensure_ascii=False).encode()
    assert json.loads(redact_json(body, add_values(FIND, values))) == {"a": kept}


@each_case(
    ("text", "kept"),
    [
        ("2024 5555 5555 5555 4444", "2024 [CARD]"),
        (" ".join(["4111 1111 1111 1111"] * 5), " ".join(["[CARD]"] * 5)),
        ("DE89370400440532013000 GB82WEST12345698765432", "[IBAN] [IBAN]"),
    ],
)
def test_numbers_beside_others_are_removed(text: str, kept: str) -> None:
    assert redact_text(text, FIND) == kept


def test_full_content_loses_keys_only() -> None:
    assert redact_text("alice@example.com sk-proj-abcdefghijklmnop", KEYS_ONLY) == "alice@example.com [redacted]"


def test_the_longer_of_two_spans_with_one_start_counts() -> None:
    spans = [Span(3, 5, "b"), Span(0, 2, "a"), Span(0, 4, "A")]
    assert sort_spans(spans) == [Span(0, 4, "A")]


@each_case(
    "value",
    [
        {"content": "line\nalice@example.com"},
        {"content": 'a "quoted" \\ alice@example.com'},
        {"alice@example.com": 1},
        {"alice@example.com": "x" * 9},
        ["é alice@example.com", {"deep": ["alice@example.com"]}],
        {"half": "\ud800 alice@example.com"},
    ],
)
def test_json_stays_json_without_what_was_found(value: Any) -> None:
    for ascii_only in (False, True):
        body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace")
        kept = redact_json(body, FIND)
        assert b"alice" not in kept
        assert json.dumps(json.loads(kept)) == json.dumps(json.loads(body)).replace("alice@example.com", "[EMAIL]")


def test_an_escape_that_json_does_not_have_stays_as_it_is() -> None:
    assert redact_json(b'"\\x alice@example.com"', FIND) == b'"\\\\x [EMAIL]"'


@each_case("size", [1, 2, 4, 8])
def test_a_number_of_equal_parts_is_found(size: int) -> None:
    card = "4242424242424242"
    frames = b"".join(frame(content=card[at : at + size]) for at in range(0, 16, size))
    kept, _ = redact_stream(frames, [(0.0, len(frames))], FIND)
    assert "".join(delta["content"] for delta in read_deltas(kept)) == "[CARD]"


def test_names_in_a_stream_are_looked_at() -> None:
    data = b'data: {"alice@example.com": 1}\n\n'
    assert redact_stream(data, [(0.0, len(data))], FIND)[0] == b'data: {"[EMAIL]": 1}\n\n'


def test_json_without_a_hit_stays_the_same_bytes() -> None:
    body = b'{ "a":"\\u00e9\\/", "b" : 1.0}'
    assert redact_json(body, FIND) == body


@each_case(
    ("text", "start"),
    [
        ("data:image/png;base64," + "QUJD" * 300, "[image/png, 900 bytes, hash "),
        ("data:;base64," + "QUJD" * 300, "[data, 900 bytes, hash "),
        ("QUJD" * 2000, "[data, 6000 bytes, hash "),
        ("words " * 2000, "words "),
    ],
)
def test_media_is_replaced_by_its_kind_size_and_hash(text: str, start: str) -> None:
    kept = json.loads(redact_json(json.dumps({"url": text}).encode(), FIND))["url"]
    assert kept.startswith(start)
    assert len(kept) < 80 or kept == text


def frame(**delta: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"


def read_deltas(data: bytes) -> list[dict[str, str]]:
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: {")]
    return [json.loads(line)["choices"][0]["delta"] for line in lines]


def test_a_value_is_found_wherever_deltas_cut_it() -> None:
    text = "to alice@example.com and sk-proj-abcdefghijklmnop, bye"
    for size in (1, 2, 3, 7, 20, 100):
        deltas = [text[start : start + size] for start in range(0, len(text), size)]
        frames = [frame(content=delta) for delta in deltas]
        parts = [(float(number), len(data)) for number, data in enumerate(frames)]
        kept, moved = redact_stream(b"".join(frames), parts, FIND)
        assert "".join(delta["content"] for delta in read_deltas(kept)) == "to [EMAIL] and [redacted], bye"
        assert [milliseconds for milliseconds, _ in moved] == [milliseconds for milliseconds, _ in parts]
        assert sum(length for _, length in moved) == len(kept)
        place = 0
        for _, length in moved:  # each read still is one frame
            assert kept[place : place + length].endswith(b"\n\n")
            place += length


def test_texts_with_different_names_are_not_joined() -> None:
    frames = frame(content="mail alice@", reasoning="is it?") + frame(content="example.com", reasoning=" yes")
    kept, _ = redact_stream(frames, [(0.0, len(frames))], FIND)
    deltas = read_deltas(kept)
    assert [delta["content"] for delta in deltas] == ["mail [EMAIL]", ""]
    assert [delta["reasoning"] for delta in deltas] == ["is it?", " yes"]


@each_case(
    ("data", "kept"),
    [
        (b": alice@example.com\n\n", b": [EMAIL]\n\n"),
        (b"data: alice@example.com\n\n", b"data: [EMAIL]\n\n"),
        (b'data: {"content": "alice@example.com', b'data: {"content": "[EMAIL]'),
        (b"data: [DONE]\n\n", b"data: [DONE]\n\n"),
    ],
)
def test_lines_without_json_and_a_cut_end_are_redacted_too(data: bytes, kept: bytes) -> None:
    assert redact_stream(data, [(0.0, len(data))], FIND) == (kept, ((0.0, len(kept)),))


def test_media_in_a_stream_is_replaced() -> None:
    data = frame(content="data:image/png;base64," + "QUJD" * 300)
    kept, _ = redact_stream(data, [(0.0, len(data))], FIND)
    assert read_deltas(kept)[0]["content"].startswith("[image/png, 900 bytes")


def test_plain_text_that_is_no_utf8_keeps_its_bytes() -> None:
    assert redact_plain(b"\xff alice@example.com \xfe", FIND) == b"\xff [EMAIL] \xfe"
    assert redact_plain(b"\xff", FIND) == b"\xff"


@each_case(
    ("edits", "expected"),
    [
        ((), (5, 5, 5)),
        ((Edit(1, 2, b""),), (4, 5, 5)),
        ((Edit(4, 7, b"long text"),), (13, 3, 5)),
        ((Edit(0, 1, b"ab"), Edit(14, 15, b"")), (6, 5, 4)),
    ],
)
def test_the_borders_of_reads_move_with_the_bytes(edits: Sequence[Edit], expected: tuple[int, ...]) -> None:
    assert tuple(size for _, size in move_parts([(1.0, 5), (2.0, 5), (3.0, 5)], edits)) == expected


def test_a_stream_is_told_from_a_whole_reply() -> None:
    assert is_stream(b'event: x\ndata: {"a": 1}\n\n')
    assert not is_stream(b'{"data": "data: x"}')


def test_values_are_found_in_frames_of_several_shapes() -> None:
    texts = {"content": 'a "quoted" \\ mail to alice@example.com', "reasoning": "who is bob@example.com?"}
    frames = []
    for place in range(0, 40, 2):
        for name, text in texts.items():
            delta = text[place : place + 2]
            value = {"choices": [{"delta": {name: delta}, "index": 0}], "n": place if place % 3 else 0}
            frames += [b"data: " + json.dumps(value).encode() + b"\n\n"]
    frames += [b"event: ping\ndata: {}\n\n", b"data: [DONE]\n\n"]
    data = b"".join(frames)
    kept, parts = redact_stream(data, [(0.0, len(data))], FIND)
    deltas = read_deltas_of(kept)
    assert "".join(delta.get("content", "") for delta in deltas) == 'a "quoted" \\ mail to [EMAIL]'
    assert "".join(delta.get("reasoning", "") for delta in deltas) == "who is [EMAIL]?"
    assert parts == ((0.0, len(kept)),)
    harmless = data.replace(b"@", b"a")
    assert redact_stream(harmless, [(0.0, len(data))], FIND) == (harmless, ((0.0, len(data)),))


def read_deltas_of(data: bytes) -> list[dict[str, str]]:
    values = [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: {")]
    return [value["choices"][0]["delta"] for value in values if value]


@given(
    st.lists(st.sampled_from(["a", '"', "\\", "@", "x.de ", "1", "4242", "sk-", "é", "\n"]), max_size=40), st.booleans()
)
def test_looking_through_a_stream_first_changes_nothing(pieces: list[str], two_names: bool) -> None:
    names = ["content", "reasoning" if two_names else "content"]
    data = b"".join(frame(**{names[number % 2]: text}) for number, text in enumerate(pieces))
    kept, _ = redact_stream(data, [(0.0, len(data))], FIND)
    for name in set(names):
        text = "".join(delta.get(name, "") for delta in read_deltas(data))
        assert "".join(delta.get(name, "") for delta in read_deltas(kept)) == (
            "".join([*cut_spans(text), ""]) if FIND(text) else text
        )


def cut_spans(text: str) -> list[str]:
    parts, done = [], 0
    for span in FIND(text):
        parts += [text[done : span.start], span.replacement]
        done = span.end
    return [*parts, text[done:]]


def test_a_value_behind_an_escaped_quote_of_a_known_shape_is_found() -> None:
    deltas = [{"content": "a"}, {"content": "b"}, {"content": 'say "al'}, {"content": "ice@example.com"}]
    thoughts = [{"reasoning": "c"}, {"reasoning": "d"}, {"reasoning": "e"}]
    data = b"".join(frame(**delta) for delta in (*deltas, *thoughts))
    kept, _ = redact_stream(data, [(0.0, len(data))], FIND)
    assert "".join(delta.get("content", "") for delta in read_deltas(kept)) == 'absay "[EMAIL]'
