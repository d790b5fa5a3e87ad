"""The header `x-parley-attempts`."""

from app.api.reply_headers import write_attempts_header
from app.chat.stream import Attempt


def test_an_attempt_is_a_name_with_parameters() -> None:
    attempts = [
        Attempt("gpu-1", "", 1203.4, "first_token_timeout", outcome="timeout"),
        Attempt("gpu-2", "", 12.6, "error_status", outcome="overloaded", status=503),
        Attempt("cloud", "", 87.0, model="other model"),
    ]
    assert write_attempts_header(attempts) == (
        b"gpu-1;outcome=timeout;ms=1203, gpu-2;outcome=overloaded;ms=13;status=503, "
        b'cloud;outcome=ok;ms=87;model="other model"'
    )


def test_any_name_gives_one_valid_field() -> None:
    for name, written in (('a"b\\c', rb'"a\"b\\c"'), ("München\r\nx: y", b'"M?nchen??x: y"'), ("1a", b'"1a"')):
        assert write_attempts_header([Attempt(name, "", 1.0)]) == written + b";outcome=ok;ms=1"


def test_only_the_last_attempts_are_shown() -> None:
    assert write_attempts_header([Attempt(f"a{number}", "", 1.0) for number in range(40)]).count(b"ms=") == 16
