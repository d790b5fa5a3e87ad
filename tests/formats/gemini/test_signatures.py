"""A signature is base64 of a seal, Google's own, or nothing."""

import base64
from typing import Any

from app.formats.gemini.signatures import (
    Signature,
    decode_base64,
    find_own_signature,
    holds_something,
    write_signature,
)
from app.formats.seal import Seal, write_seal

from tests.each_case import each_case

SEAL = Seal("Hmm.", [{"a": 1}], {"c1": {"google": {}}}, [None, {"phase": "x"}])


def test_a_seal_comes_back_as_it_was() -> None:
    signature = write_signature(SEAL)
    assert base64.b64decode(signature, validate=True).startswith(b"parley1.")
    for given in (signature, signature.rstrip("="), write_seal(SEAL)):
        assert Signature(given).seal == SEAL
        assert Signature(given).fields is None


def test_a_damaged_seal_holds_nothing() -> None:
    assert Signature(base64.b64encode(b"parley1.%%%").decode()).seal == Seal()


@each_case(
    "text", ["", "skip_thought_signature_validator", base64.b64encode(b"skip_thought_signature_validator").decode()]
)
def test_no_signature_is_nothing(text: str) -> None:
    assert (Signature(text).seal, Signature(text).fields) == (None, None)


@each_case(("given", "kept"), [("Zm9yZWlnbg==", "Zm9yZWlnbg=="), ("-_8", "+/8="), ("not base64!", "not base64!")])
def test_googles_own_signature_is_kept(given: str, kept: str) -> None:
    assert Signature(given).fields == {"google": {"thought_signature": kept}}


@each_case(
    ("fields", "signature"),
    [
        ({"google": {"thought_signature": "czE="}}, "czE="),
        ({"google": {"thought_signature": "-_8="}}, None),
        ({"google": {"thought_signature": "parley1.x"}}, None),
        ({"google": {"thought_signature": ""}}, None),
        ({"google": {"thought_signature": "czE=", "more": 1}}, None),
        ({"google": {"thought_signature": "czE="}, "more": 1}, None),
        ({"google": 1}, None),
        (None, None),
    ],
)
def test_only_a_signature_alone_goes_out_as_itself(fields: Any, signature: str | None) -> None:
    assert find_own_signature(fields) == signature


def test_what_is_no_base64_is_none() -> None:
    assert decode_base64("a") is None
    assert decode_base64("é") is None


def test_a_seal_of_nothing_holds_nothing() -> None:
    assert not holds_something(Seal(texts=[None]))
    assert holds_something(SEAL)
