"""Inputs of embeddings, told apart, and answers put together from vectors of two requests."""

import json
from typing import Any

import pytest
from app.endpoints.body import EndpointBody, read_fields
from app.endpoints.embeddings import Server, make_keys, read_inputs, read_vectors, select_inputs, write_answer
from msgspec import Raw


def body(**fields: Any) -> EndpointBody:
    return read_fields(json.dumps({"model": "e", **fields}).encode())


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("a", [b'"a"']),
        ("", [b'""']),
        (["a", "é"], [b'"a"', '"é"'.encode()]),
        ([1, 2], [b"[1,2]"]),
        ([[1], [2, 3]], [b"[1]", b"[2,3]"]),
        ([], None),
        ([[]], None),
        ([[1.0]], None),
        ([True], None),
        (["a", [1]], None),
        ([{"text": "a"}], None),
        ({"a": 1}, None),
        (None, None),
    ],
)
def test_the_inputs_are_texts_or_tokens(given: Any, inputs: list[bytes] | None) -> None:
    assert read_inputs(body(input=given)) == inputs


def test_a_field_that_may_tie_inputs_together_leaves_them_together() -> None:
    assert read_inputs(body(input=["a"], dimensions=3, encoding_format="base64", user="u")) == [b'"a"']
    assert read_inputs(body(input=["a"], late_chunking=True)) is None
    assert read_inputs(body()) is None


def keys(sent: dict[str, Any], inputs: list[bytes], scope: str = "", **server: Any) -> list[str]:
    fields: dict[str, Any] = {"base_url": "http://a/v1", "model": "m", "variant": (), **server}
    return make_keys([Server(body=json.dumps(sent).encode(), **fields)], inputs, scope)


def test_a_key_is_that_of_the_input_and_of_all_that_changes_its_vector() -> None:
    sent = {"model": "m", "input": ["a", "b"], "dimensions": 3}
    one, other = keys(sent, [b'"a"', b'"b"'])
    assert one != other
    same = {"dimensions": 3, "input": "a", "model": "m", "user": "u"}
    assert keys(same, [b'"a"']) == [one]
    others = [
        keys({**sent, "dimensions": 4}, [b'"a"']),
        keys({**sent, "dimensions": 3.0}, [b'"a"']),
        keys({**sent, "encoding_format": "base64"}, [b'"a"']),
        keys(sent, [b'"a"'], "caller"),
        keys(sent, [b'"a"'], model="n"),
        keys(sent, [b'"a"'], base_url="http://b/v1"),
        keys(sent, [b'"a"'], variant=[("x", "y")]),
    ]
    assert len({one, other, *(key for row in others for key in row)}) == 2 + len(others)


def test_the_rest_of_the_inputs_is_a_list() -> None:
    assert select_inputs(body(input=["a", "b"], user="u"), [b'"b"']).encode("up", {}, {}) == (
        b'{"model":"up","input":["b"],"user":"u"}'
    )


VECTORS = {"object": "list", "data": [{"index": 1, "embedding": [1]}, {"index": 0, "embedding": [0.10]}], "usage": {}}


def test_vectors_are_those_of_their_places() -> None:
    found = read_vectors(b'{"data":[{"index":1,"embedding":[1.50]},{"embedding":"AAA=","index":0}],"x":1}', 2)
    assert found is not None
    assert found.items == (b'{"embedding":"AAA=","index":0}', b'{"index":1,"embedding":[1.50]}')
    assert {name: bytes(value) for name, value in found.fields.items() if name != "data"} == {"x": b"1"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"data":{}}',
        b'{"data":[{"index":0,"embedding":[1]}]}',
        b'{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}',
        b'{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}',
        b'{"data":[{"index":0,"embedding":[1]},{"index":1}]}',
        b'{"data":[{"index":0,"embedding":[1]},{"index":"1","embedding":[1]}]}',
        b'{"data":[{"embedding":[1]},{"embedding":[1]}]}',
    ],
)
def test_an_answer_of_another_form_is_not_taken_apart(data: bytes) -> None:
    assert read_vectors(data, 2) is None


def test_an_answer_keeps_the_vectors_to_the_byte_and_counts_them_again() -> None:
    items = (b'{"object":"embedding","index":7,"embedding":[1.50]}', b'{"embedding":"AAA=","index":0}')
    assert write_answer(items, "e") == (
        b'{"object":"list","model":"e","usage":{"prompt_tokens":0,"total_tokens":0},'
        b'"data":[{"object":"embedding","index":0,"embedding":[1.50]},{"embedding":"AAA=","index":1}]}'
    )
    fields = {"data": Raw(b"[]"), "usage": Raw(b'{"prompt_tokens":3}'), "id": Raw(b'"x"')}
    assert json.loads(write_answer(items[:1], "e", fields)) == {
        **{"object": "list", "usage": {"prompt_tokens": 3}, "id": "x"},
        "data": [{"object": "embedding", "index": 0, "embedding": [1.5]}],
    }
