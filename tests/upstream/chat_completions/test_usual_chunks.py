"""The usual chunk, data line and usage are read in a straight way, with the result of the general one."""

import itertools
import json
from typing import Any

import pytest
from app.chat.events import Event, TextDelta
from app.upstream.chat_completions import chunk_decoder
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.reply import usage as reply_usage
from app.upstream.reply.chunk import Chunk, ChunkText
from app.upstream.reply.sse import EventReader
from app.upstream.reply.usual_decoder import MIN_WAIT
from hypothesis import example, given
from hypothesis import strategies as st

texts = st.sampled_from(["", " ", "a", '"', "{", '{"a":', "1}", "{}", "\n", "é", "\ud83d", "\ude00"])


def rarely(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.none(), st.none(), values)


functions = st.fixed_dictionaries({}, optional={"arguments": texts, "name": rarely(st.sampled_from(["", "f", "g"]))})
calls = st.fixed_dictionaries(
    {"function": st.one_of(functions, functions, st.none())},
    optional={
        "index": st.sampled_from([0, 0, 0, 1, 2, -1, None]),
        "id": rarely(st.sampled_from(["", "c1", "c2"])),
        "extra_content": rarely(st.just({"a": 1})),
        "type": rarely(st.sampled_from(["function", "custom", "web_search"])),
        "name": rarely(st.just("f")),
        "arguments": rarely(texts),
    },
)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "content": texts | st.none(),
        "reasoning_content": rarely(texts),
        "tool_calls": st.lists(calls, min_size=1, max_size=2) | rarely(st.just([])),
        "reasoning": rarely(texts),
        "thinking": rarely(texts),
        "thinking_blocks": rarely(st.just([{"type": "thinking", "thinking": "a", "signature": "s"}])),
        "provider_specific_fields": rarely(st.sampled_from([{}, {"reasoning_content": "a"}])),
        "role": rarely(st.sampled_from(["assistant", "tool", ""])),
        "audio": rarely(st.fixed_dictionaries({"transcript": texts})),
        "refusal": rarely(texts),
        "annotations": rarely(st.just([{"a": 1}])),
        "extra_content": rarely(st.sampled_from([{}, {"a": 1}])),
        "function_call": rarely(functions),
        "images": rarely(st.just([{"image_url": {"url": "data:image/png;base64,AAAA"}}])),
    },
)
usages = st.sampled_from([{}, {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}])
choices = st.fixed_dictionaries(
    {"delta": deltas},
    optional={
        "index": st.sampled_from([0, 0, 0, 1]),
        "finish_reason": rarely(st.sampled_from(["", "stop", "tool_calls", "abort"])),
        "message": rarely(deltas),
        "text": rarely(texts),
        "usage": rarely(usages),
        "error": rarely(st.just({"message": "bad"})),
    },
)
chunks = st.fixed_dictionaries(
    {"choices": st.one_of(*[st.lists(choices, min_size=1, max_size=1)] * 4, st.lists(choices, max_size=2))},
    optional={
        "usage": rarely(usages),
        "error": rarely(st.just({"message": "bad"})),
        "object": st.sampled_from(["chat.completion.chunk", "chat.completion.chunk", "error"]),
        "base_resp": rarely(st.sampled_from([{"status_code": 0}, {"status_code": 1000}])),
        "x_groq": rarely(usages.map(lambda usage: {"usage": usage})),
        "citations": rarely(st.just(["https://example.com"])),
    },
)


class _GeneralAssembler(Assembler):
    def _feed_usual_chunk(self, chunk: Chunk, out: list[Event]) -> bool:
        return False


def decode(chunk: dict[str, Any]) -> Chunk | None:
    return chunk_decoder.decode(json.dumps(chunk).encode())


@pytest.mark.interpreted
@given(st.lists(st.lists(chunks, max_size=3), max_size=8))
def test_the_usual_chunk_gives_the_events_of_any_chunk(reads: list[list[dict[str, Any]]]) -> None:
    quick, general = Assembler("chat-1"), _GeneralAssembler("chat-1")
    for read in reads:
        assert quick.feed([decode(chunk) for chunk in read]) == general.feed([decode(chunk) for chunk in read])
        assert (quick.started, quick.ended, quick.finishing) == (general.started, general.ended, general.finishing)
        assert quick.check_progress() == general.check_progress()
    assert quick.close() == general.close()


lines = st.one_of(
    st.sampled_from([b"", b"", b'data: {"a": 1}', b'data: {"a": 1}', b'data: {"a":', b"data: 1}", b"data: [DONE]"]),
    st.sampled_from([b"data: {not JSON", b"event: error", b"event: x", b"error: {}", b": ping", b"{}"]),
)


@given(st.lists(lines, max_size=10), st.booleans())
def test_a_data_line_is_read_alike_with_and_without_a_space(given_lines: list[bytes], clean: bool) -> None:
    usual, other = EventReader(json.loads), EventReader(json.loads)
    items = usual.feed(b"".join(line + b"\n" for line in given_lines)) + usual.close(clean)
    general = [line.replace(b"data: ", b"data:") for line in given_lines]
    others = other.feed(b"".join(line + b"\n" for line in general)) + other.close(clean)
    assert list(map(_show, items)) == list(map(_show, others))
    assert (usual.junk, usual.saw_line) == (other.junk, other.saw_line)


def _show(item: object) -> object:
    return item if isinstance(item, dict | int) else (type(item), getattr(item, "data", b""))


_KEYS = sorted(
    {
        path.partition(".")[0]
        for table in (reply_usage._TOTALS, reply_usage._PARTS)
        for paths in table.values()
        for path in paths
    }
)
_NUMBERS = st.sampled_from([None, 0, 5, -1, True, "a", 1.5, {}, {"cached_tokens": 3}, {"reasoning_tokens": 0}])


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(reply_usage._TOTALS, st.sampled_from([7, 7, 0, -2, None]))),
    st.dictionaries(st.sampled_from([*_KEYS, "other"]), _NUMBERS, max_size=3),
)
def test_a_usage_that_lacks_no_name_is_left_as_it_is(totals: dict[str, Any], others: dict[str, Any]) -> None:
    usage = totals | others
    general = reply_usage._add_openai_names(usage)
    general = general if any(general.get(name) is not None for name in reply_usage._TOTALS) else {}
    found = reply_usage.normalize_usage(usage) or {}
    assert found == general
    assert list(found) == list(general)


heads = st.sampled_from(
    [
        '{"id":"a","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}',
        '{"id":"a","choices":[{"index":0,"delta":{"content": %s }}], "usage": null}',
        '{"id":"a","choices":[{"index":0,"delta":{"reasoning_content":%s,"content":null}}]}',
        '{"choices":[{"delta":{"content":"","reasoning_content":%s}}]}',
        '{"choices":[{"delta":{"content":%s,"reasoning_content":"b"}}]}',
        '{"choices":[{"delta":{"content":%s,"content":"b"}}]}',
        '{"choices":[{"delta":{"role":"assistant","content":%s}},{"index":1,"delta":{"content":"b"}}]}',
        '{"choices":[{"message":{"content":"b"},"delta":{"arguments":%s}}]}',
        '{"choices":[{"delta":{"content":%s},"finish_reason":"stop"}]}',
        '{"choices":[{"delta":{"content":%s}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}',
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"type":"function","function":{"arguments":%s,"name":""}}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":%s}}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":%s}}]}}]}',
        '{"object":"error","message":%s}',
        '{"x":{"content":%s},"choices":[{"delta":{"c\\u006fntent":"b"}}]}',
    ]
)
strings = st.sampled_from(
    [
        '" the"',
        '" caf\u00e9"',
        '"{\\"a\\": "',
        '"\\\\"',
        '""',
        '"\\ud83d"',
        '"\\ude00"',
        '"\\ud83d\\ude00"',
        "null",
        "7",
    ]
    + ['"a","b":"c"', '" "', '"\n"', '"a"}', '["a"]', '{"type":"text","text":"a"}', '"\udc80"']
)
WORDS = [f'" {number}"' for number in range(7)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at these thousandths of their length."""
    bounds = [0, *sorted(place * len(data) // 1000 for place in places), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(bounds)]


THOUGHT = '{"id":"a","choices":[{"index":0,"delta":{"reasoning_content":%s,"content":null}}]}'
OTHER_TEXT = '{"x":{"content":%s},"choices":[{"delta":{"c\\u006fntent":"b"}}]}'


@example([(head, [*WORDS, *WORDS]) for head in (THOUGHT, OTHER_TEXT, THOUGHT)], None, "\n\n")
@given(
    st.lists(st.tuples(heads, st.lists(strings, min_size=1, max_size=9)), max_size=6),
    st.none() | st.lists(st.integers(0, 1000), max_size=5),
    st.sampled_from(["\n\n", "\n\n", "\n\n", "\n", "\n\n\n", "\r\n\r\n"]),
)
def test_the_bytes_around_a_text_are_remembered_without_a_difference(
    runs: list[tuple[str, list[str]]], places: list[int] | None, end: str
) -> None:
    texts = [head % string for head, strings in runs for string in [*WORDS, *strings]]
    events = [f"data: {text}{end}".encode("utf-8", "surrogateescape") for text in texts]
    reads = events if places is None else cut(b"".join(events), places)
    decoder = chunk_decoder.ChunkDecoder()
    quick = EventReader[Chunk | ChunkText | None](decoder.decode, decoder)
    general = EventReader(chunk_decoder.decode)
    first, second = Assembler("chat-1"), Assembler("chat-1")
    quick_events, general_events = [], []
    for read in reads:
        quick_events += first.feed(quick.feed(read))
        general_events += second.feed(general.feed(read))
        assert quick_events == general_events
        assert (first.started, first.ended, first.finishing) == (second.started, second.ended, second.finishing)
        assert first.check_progress() == second.check_progress()
    assert first.close() == second.close()


def test_the_texts_of_a_read_are_decoded_together_unless_one_is_malformed_or_has_nothing() -> None:
    frames = [b'data: {"id":"x","choices":[{"delta":{"content":%b}}]}' % text for text in (b'"a"', b'"b"', b'"c"')]
    decoder = chunk_decoder.ChunkDecoder()
    assert decoder.decode_run(frames, 0) == ([], 0)
    for number in range(MIN_WAIT):
        decoder.decode(frames[0][6:].replace(b'"a"', b'"%d"' % number))
    assert decoder.decode_run([*frames, b"data: [DONE]"], 1) == ([TextDelta("b"), TextDelta("c")], 2)
    for other in (b'""', b'"b', b'"b","c"', b"", b'"b"\n', b"[]", b"1", b'"\\ud83d"', b'"\xff"'):
        changed = [frames[0], frames[1].replace(b'"b"', other), frames[2]]
        assert decoder.decode_run(changed, 0)[0] == [], other
    halves = [frames[0].replace(b'"a"', text) for text in (b'"a', b'b","c"')]
    assert decoder.decode_run(halves, 0)[0] == []


def test_the_events_of_a_read_that_is_cut_within_one_are_decoded_together() -> None:
    """Else a busy gateway would read them line by line, just when it has no time for that."""
    calls: list[bytes] = []

    def decode(data: bytes) -> Chunk | ChunkText | None:
        calls.append(data)
        return decoder.decode(data)

    decoder = chunk_decoder.ChunkDecoder()
    reader = EventReader[Chunk | ChunkText | None](decode, decoder)
    body = b"".join(b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % number for number in range(1000))
    items: list[Any] = []
    for at in range(0, len(body), 5000):
        items += reader.feed(body[at : at + 5000])
    texts = [item.text for item in items[MIN_WAIT:]]
    assert texts == [str(number) for number in range(MIN_WAIT, 1000)]
    assert len(calls) == MIN_WAIT


def test_an_event_of_several_lines_is_not_remembered() -> None:
    decoder = chunk_decoder.ChunkDecoder()
    reader = EventReader[Chunk | ChunkText | None](decoder.decode, decoder)
    for number in range(2 * MIN_WAIT):
        reader.feed(b'data: {"choices":\ndata: [{"delta":{"content":"%d"}}]}\n\n' % number)
    assert reader.feed(b'data: {"choices":\n[{"delta":{"content":"b"}}]}\n\n') != [TextDelta("b")]


def test_a_chunk_that_differs_only_in_its_text_is_not_decoded_whole() -> None:
    decoder = chunk_decoder.ChunkDecoder()
    kinds: list[type] = []
    for word in ["a", "b", "c"] * 5:
        item = decoder.decode(b'{"id":"x","choices":[{"delta":{"content":"%b"}}]}' % word.encode())
        kinds.append(type(item))
    assert kinds == [Chunk] * MIN_WAIT + [TextDelta] * (15 - MIN_WAIT)
