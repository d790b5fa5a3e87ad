"""A seal returns what it was given; anything else is no seal."""

import base64
import json

import pytest
from app.chat.messages import SEAL_PREFIX as PREFIX
from app.formats.seal import MAX_NESTING, Seal, read_seal, write_seal

DETAILS = [{"type": "reasoning.text", "signature": "SigA", "format": "anthropic-claude-v1"}]
STORED = {
    "parley1.e30": Seal(),
    "parley1.eyJ0ZXh0IjoiSSBuZWVkIFBhcmlzLiJ9": Seal("I need Paris."),
    "parley1.eyJkZXRhaWxzIjpbeyJ0eXBlIjoicmVhc29uaW5nLnRleHQiLCJzaWduYXR1cmUiOiJTaWdBIiwiZm9ybWF0IjoiYW50aHJvcGljLWNs"
    "YXVkZS12MSJ9XX0": Seal(details=DETAILS),
    "parley1.eyJ0ZXh0IjoiSG0uIiwiZGV0YWlscyI6W3sidHlwZSI6InJlYXNvbmluZy50ZXh0Iiwic2lnbmF0dXJlIjoiU2lnQSIsImZvcm1hdCI6"
    "ImFudGhyb3BpYy1jbGF1ZGUtdjEifV19": Seal("Hm.", DETAILS),
    "parley1.eyJ0ZXh0IjoiIiwiZGV0YWlscyI6WzFdfQ": Seal("", [1]),
}


def pack(contents: object) -> str:
    return PREFIX + base64.urlsafe_b64encode(json.dumps(contents).encode()).decode().rstrip("=")


@pytest.mark.parametrize(("text", "contents"), STORED.items())
def test_a_seal_is_always_the_same_string_and_holds_what_it_was_given(text: str, contents: Seal) -> None:
    assert write_seal(contents) == text
    assert read_seal(text) == contents


def test_a_seal_holds_any_text_and_the_fields_of_calls() -> None:
    for contents in (
        Seal("天气 😀 \u2028 é"),
        Seal("x" * 100_000),
        Seal(calls={"call_1": {"google": {"thought_signature": "s"}}}),
    ):
        assert read_seal(write_seal(contents)) == contents


def test_a_key_of_a_newer_version_is_ignored() -> None:
    assert read_seal(pack({"text": "Hm.", "later": [1]})) == Seal("Hm.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "EqQBCkYIBRgCKkD",
        "parley1",
        "parley1.",
        "parley1.!!!",
        "parley1.e3",
        "parley1.e30é",
        "parley2.e30",
        pack([]),
        pack({"text": 1}),
        pack({"details": {}}),
        pack({"calls": []}),
        pack(None),
        PREFIX + base64.urlsafe_b64encode(b'{"text":"\xff"}').decode(),
        PREFIX + base64.urlsafe_b64encode(b'{"details":' + b"[" * 100_000).decode(),
    ],
)
def test_what_is_no_seal_or_damaged_is_none(text: str) -> None:
    assert read_seal(text) is None


def test_a_seal_that_is_nested_too_deeply_is_none() -> None:
    nested: list[object] = []
    for _ in range(MAX_NESTING):
        nested = [nested]
    assert read_seal(pack({"details": nested})) is None
    assert read_seal(pack({"details": nested[0]})) is None
    shallow: list[object] = []
    for _ in range(MAX_NESTING - 5):
        shallow = [shallow]
    assert read_seal(pack({"details": shallow})) is not None
