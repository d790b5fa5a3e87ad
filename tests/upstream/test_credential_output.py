"""What a command prints, or a file holds, as the key for a model server."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from app.upstream.credential_output import Credential, parse_credential

from tests.each_case import each_case

NOW = 1_800_000_000.0
IN_AN_HOUR = datetime.fromtimestamp(NOW + 3600, UTC)
LOCAL = datetime.fromtimestamp(NOW + 3600).strftime("%Y-%m-%d %H:%M:%S.%f")


@each_case(
    ("output", "credential"),
    [
        ("token-1\n", Credential("token-1")),
        ("  a b  ", Credential("a b")),
        ({"access_token": "t", "expires_in": 3600}, Credential("t", NOW + 3600)),
        ({"access_token": "t", "expires_in": "3599", "token_type": "Bearer"}, Credential("t", NOW + 3599)),
        ({"access_token": "t"}, Credential("t")),
        (
            {"accessToken": "t", "expiresOn": LOCAL, "expires_on": int(NOW) + 60, "tenant": "x"},
            Credential("t", NOW + 60),
        ),
        ({"accessToken": "t", "expiresOn": LOCAL}, Credential("t", NOW + 3600)),
        (
            {"kind": "ExecCredential", "status": {"token": "t", "expirationTimestamp": "2027-01-15T09:00:00Z"}},
            Credential("t", datetime(2027, 1, 15, 9, tzinfo=UTC).timestamp()),
        ),
        ({"token": "t", "expiry": IN_AN_HOUR.isoformat()}, Credential("t", NOW + 3600)),
        ({"token": "t", "expiration": NOW + 5}, Credential("t", NOW + 5)),
        ({"token": "t", "expiration": None}, Credential("t")),
    ],
)
def test_a_line_and_the_json_of_known_programs_are_read(output: Any, credential: Credential) -> None:
    text = output if isinstance(output, str) else json.dumps(output)
    assert parse_credential(text.encode(), NOW) == credential


@each_case(
    ("output", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"secret\nsecond", "not one line"),
        (b"sec\x00ret", "not one line"),
        ("sécret".encode(), "not one line"),
        (b"\xff\xfe", "no UTF-8"),
        (b'{"token": "secret"', "is none"),
        (b'{"a":' * 5000, "is none"),
        (b'{"key": "secret"}', "has no text in"),
        (b'{"token": 7}', "has no text in"),
        (b'{"token": "sec\\nret"}', "not one line"),
        (b'{"status": {"token": ""}}', "has no text in"),
        (b'{"token": "secret", "expires_in": true}', "expires_in of the credential is no number"),
        (b'{"token": "secret", "expires_in": "soon"}', "expires_in of the credential is no number"),
        (b'{"token": "secret", "expires_in": -5}', "expires_in of the credential is no number"),
        (b'{"token": "secret", "expiry": "secret"}', "expiry of the credential is neither a date"),
        (b'{"token": "secret", "expiry": [1]}', "expiry of the credential is no number"),
        (b'{"token": "secret", "expires_in": 0}', "expired already"),
        (b'{"token": "secret", "expires_on": 5}', "expired already"),
    ],
)
def test_what_is_no_credential_is_refused_without_being_quoted(output: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse_credential(output, NOW)
    assert "secret" not in str(caught.value)
