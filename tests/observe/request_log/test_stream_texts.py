"""The texts of streams, as clients join them."""

import json

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
