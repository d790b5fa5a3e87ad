"""The texts of streams, as clients join them."""

import json
from collections.abc import Callable
from typing import Any

from app.observe.request_log.bytes_test import make_bytes_test
from app.observe.request_log.redaction import make_finder, redact_stream
from app.observe.request_log.stream_texts import join_texts
from hypothesis import given
from hypothesis import strategies as st


def frame(**delta: object) -> bytes:
    return b"data: " + json.dumps({"id": "c1", "choices": [{"delta": delta}]}, ensure_ascii=False).encode() + b"\n\n"


def test_deltas_of_one_name_are_one_text_also_where_frames_differ() -> None:
    frames = [
        frame(role="assistant", content="al"),
        frame(content="ice"),
        b'event: ping\ndata: {"type": "ping"}\n\n',
        frame(content="@exa"),
        frame(content="mple.com", n=1),
        b"data: [DONE]\n\n",
    ]
    assert b"alice@example.com" in join_texts(b"".join(frames)).split(b"\n")


def test_texts_of_different_names_are_not_joined() -> None:
    data = b"".join([frame(content="a"), frame(content="b"), frame(reasoning="c"), frame(reasoning="d")])
    lines = join_texts(data).split(b"\n")
    assert {b"ab", b"cd"} <= set(lines)


def test_a_quote_that_belongs_to_no_string_changes_no_other_frame() -> None:
    frames = [frame(content="a"), b': 5" of text\n\n', frame(content="b", n=2)]
    for more in (0, 99):
        assert b"ab" in join_texts(b"".join([*frames, *[b"data: [DONE]\n\n"] * 99 * more])).split(b"\n")


def test_lines_may_end_with_a_carriage_return() -> None:
    data = b"".join([frame(content="a"), frame(content="b", n=2)]).replace(b"\n", b"\r\n")
    assert b"ab" in join_texts(data).split(b"\n")


def test_equal_parts_are_kept_as_often_as_a_number_may_need() -> None:
    assert b"4242" * 4 in join_texts(frame(content="4242") * 50)
    assert len(join_texts(frame(content="words and more") * 5000)) < 1000


def test_a_stream_that_is_cut_and_what_is_no_stream_are_read_as_far_as_they_go() -> None:
    assert b"ab" in join_texts(frame(content="a") + frame(content="b") + b'data: {"choices": [{"delta": {"content": "c')
    assert join_texts(b"") == b""
    assert join_texts(b"data: no quotes\n\n") == b""


@given(
    st.lists(
        st.tuples(st.sampled_from(["content", "reasoning", "text"]), st.text(alphabet='ab"\\é@ ', max_size=5)),
        max_size=30,
    )
)
def test_each_text_is_whole(deltas: list[tuple[str, str]]) -> None:
    lines = join_texts(b"".join(frame(**{name: text}) for name, text in deltas)).split(b"\n")
    for name in {name for name, _ in deltas}:
        texts = [text for each, text in deltas if each == name]
        joined = "".join(texts)
        if len(set(texts)) > 1:
            written = json.dumps(joined, ensure_ascii=False)[1:-1].replace("\\\\", "\x7f\x7f").replace('\\"', "''")
            assert written.encode() in lines


FIND = make_finder([], personal=True)
MAY_HOLD = make_bytes_test([], personal=True)
PIECES = (
    *("al", "ice", "@", "exam", "ple.", "com", "4111 ", "1111 1111", " 1111", "sk-", "proj-abcdefgh", "ijklmnop", " "),
    *('"', "\\", "\n", "é", "DE8937040044", "0532013000", "a"),
)


def write_chat(name: str, text: str, number: int) -> Any:
    return {"id": "c1", "choices": [{"index": 0, "delta": {name: text}}]}


def write_events(name: str, text: str, number: int) -> Any:
    return {"type": f"response.{name}.delta", "sequence_number": number, "item_id": name, "delta": text}


def write_odd(name: str, text: str, number: int) -> Any:
    return {name: text, "n": number} if number % 3 else {"n": [number], "more": {name: text, "kind": name}}


@given(
    st.sampled_from([write_chat, write_events, write_odd]),
    st.lists(st.tuples(st.sampled_from(["content", "reasoning"]), st.sampled_from(PIECES)), max_size=30),
    st.booleans(),
)
def test_what_would_be_removed_from_a_stream_is_never_missed(
    write: Callable[[str, str, int], Any], deltas: list[tuple[str, str]], ascii_only: bool
) -> None:
    lines = [json.dumps(write(*delta, number), ensure_ascii=ascii_only) for number, delta in enumerate(deltas)]
    data = "".join(f"event: x\ndata: {line}\n\n" for line in lines).encode()
    changed = redact_stream(data, [(0.0, len(data))], FIND)[0] != data
    assert not changed or MAY_HOLD(data) or MAY_HOLD(join_texts(data))
