import json
from typing import Any

from app.endpoints.scan import MAX_VALUE_BYTES, JsonScan

from tests.cuts import bytewise, every_cut, whole
from tests.each_case import each_case

DOCUMENT: dict[str, Any] = {
    'a"b': [1, {"usage": 2}],
    "model": 'up\\"-e',
    "data": [{"x": [1, 2], "model": "inner"}, {"y": '}]"\\'}],
    "usage": {"prompt_tokens": 3, "inner": {"z": "\\"}},
    "meta": None,
}


def scan(parts: list[bytes]) -> tuple[JsonScan, bytes]:
    read = JsonScan(frozenset((b"usage", b"meta")), {b"model": b'"e"'}, b"data")
    return read, b"".join(map(read.feed, parts))


@each_case("indent", [None, 2])
def test_wherever_a_document_is_cut_the_same_is_read_and_passed_on(indent: int | None) -> None:
    data = b" \n" + json.dumps(DOCUMENT, indent=indent).encode()
    expected = data.replace(json.dumps(DOCUMENT["model"]).encode(), b'"e"')
    for parts in [whole(data), bytewise(data), *every_cut(data)]:
        read, passed = scan(parts)
        assert passed == expected, parts
        assert {name: json.loads(value) for name, value in read.values.items()} == {
            b"usage": DOCUMENT["usage"],
            b"meta": None,
        }
        assert read.count == 2
        assert read.is_complete


@each_case("text", ['[{"model": "up"}]', '{"a": {"model": "up"}}', '{"model": null}', '{"model": {"model": "up"}}'])
def test_only_a_text_at_the_top_is_the_name_of_the_model(text: str) -> None:
    assert scan([text.encode()])[1] == text.encode()


def test_a_document_that_is_cut_off_is_not_complete() -> None:
    assert not scan([b'{"data": [1, 2'])[0].is_complete


def test_a_text_is_no_document() -> None:
    assert not scan([b"not JSON"])[0].is_document


def test_a_long_value_is_not_kept_and_still_passed_on() -> None:
    for name in ("usage", "model"):
        data = json.dumps({name: "x" * (MAX_VALUE_BYTES + 99), "meta": 1}).encode()
        read, passed = scan([data[:9000], data[9000:-20], data[-20:]])
        assert passed == data
        assert read.values == {b"meta": b" 1"}
