"""JSON Web Key Sets: which keys of a document verify tokens, and why others are left out."""

import json
from typing import Any

import pytest
from app.access.jwk_set import MAX_KEYS, parse_jwk_set

from tests.each_case import each_case
from tests.token_issuer import make_jwk

EC = make_jwk("ES256", "1")
RSA = make_jwk("RS256", "r")


def parse(*rows: Any) -> Any:
    return parse_jwk_set(json.dumps({"keys": rows}).encode())


@each_case(
    ("row", "algorithms"),
    [
        (EC, ("ES256",)),
        (make_jwk("ES384", "2"), ("ES384",)),
        (make_jwk("EdDSA", "3"), ("EdDSA",)),
        (RSA, ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ({**RSA, "alg": "PS256"}, ("PS256",)),
        ({name: value for name, value in EC.items() if name != "use"}, ("ES256",)),
        ({**EC, "key_ops": ["verify"]}, ("ES256",)),
        ({**EC, "d": "c2VjcmV0", "x5c": ["ignored"], "x5u": "http://evil.test"}, ("ES256",)),
    ],
)
def test_the_algorithms_of_a_key_are_those_of_its_type_and_its_alg(
    row: dict[str, Any], algorithms: tuple[str, ...]
) -> None:
    (key,) = parse(row).keys
    assert key.algorithms == algorithms


@each_case(
    ("row", "reason"),
    [
        ("text", "it is not an object"),
        ({**EC, "use": "enc"}, "its use is not sig"),
        ({**EC, "key_ops": ["encrypt"]}, "its key_ops have no verify"),
        ({**EC, "key_ops": "verify"}, "its key_ops have no verify"),
        ({"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "alg": "HS256"}, "it is a symmetric key"),
        ({"kty": "AKP"}, "its kty is 'AKP'"),
        ({**EC, "kty": 1}, "its kty is not a string"),
        ({**EC, "kid": ["1"]}, "its kid is not a string"),
        ({**EC, "crv": "secp256k1"}, "its crv 'secp256k1' and alg 'None' are not supported"),
        ({**EC, "alg": "ES384"}, "its crv 'P-256' and alg 'ES384' are not supported"),
        ({**RSA, "alg": "HS256"}, "its crv 'None' and alg 'HS256' are not supported"),
        ({**EC, "x": EC["y"], "y": EC["x"]}, "its numbers are no public key"),
        ({**EC, "x": None}, "its x is missing or not base64url"),
        ({**EC, "x": "a"}, "its x is missing or not base64url"),
        ({**EC, "x": "ü"}, "its x is missing or not base64url"),
        ({**RSA, "n": RSA["n"][:170]}, "it has 1016 bits; RSA keys have 2048 to 8192"),
        ({**RSA, "n": "_" * 10_000}, "it has 60000 bits; RSA keys have 2048 to 8192"),
        ({**RSA, "e": "_" * 400}, "its e is too large"),
    ],
)
def test_a_key_that_must_not_verify_a_token_is_left_out_and_the_others_stay(row: Any, reason: str) -> None:
    found = parse(row, make_jwk("EdDSA", "good"))
    assert found.names == ["good"]
    assert found.skipped[0].endswith(f": {reason}")
    with pytest.raises(ValueError, match="no key in it can verify a token"):
        parse(row)


@each_case(
    ("data", "mistake"),
    [
        (b"<html>", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no list"),
        (b'{"keys": {}}', "no list"),
        (b'{"keys": []}', "it is empty"),
        (json.dumps({"keys": [EC] * (MAX_KEYS + 1)}).encode(), f"{MAX_KEYS + 1} keys"),
    ],
)
def test_another_document_is_refused(data: bytes, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        parse_jwk_set(data)


def test_a_key_is_found_by_its_name_and_by_the_algorithm() -> None:
    found = parse(EC, RSA, make_jwk("ES256", None))
    assert [key.kid for key in found.find("1", "ES256")] == ["1"]
    assert found.find("1", "RS256") == found.find("2", "ES256") == []
    assert [key.kid for key in found.find(None, "ES256")] == ["1", None]
    assert found.names == ["1", "r", "(no kid)"]
    assert [key.label for key in found.keys][::2] == ["1 (ES256)", "(no kid) (ES256)"]
    assert parse({**EC, "kid": "k" * 9999}).names == ["k" * 100]
    assert parse(EC) == parse(EC) != parse(make_jwk("ES256", "1", 1))
