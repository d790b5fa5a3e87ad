"""Exceptions of the network into one word each."""

import errno
import socket
import ssl

import httpx
import pytest
from app.chat.events import Fault
from app.upstream import causes
from app.upstream.http.connection import ClosedEarly, TlsAnswered

from tests.each_case import each_case


def refused_certificate(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@each_case(
    ("error", "word"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), "connection_refused"),
        (
            OSError("Multiple exceptions: [Errno 111] ('::1', 1, 0, 0), [Errno 111] ('127.0.0.1', 1)"),
            "connection_refused",
        ),
        (OSError("Multiple exceptions: [Errno 101] ('::1', 1), [Errno 111] ('127.0.0.1', 1)"), "connection_refused"),
        (OSError(errno.EHOSTUNREACH, "no"), "unreachable"),
        (OSError(errno.EMFILE, "no"), "no_descriptors"),
        (TimeoutError(errno.ETIMEDOUT, "no"), "connection_timeout"),
        (socket.gaierror(socket.EAI_NONAME, "no"), "name_not_found"),
        (socket.gaierror(socket.EAI_AGAIN, "no"), "name_not_found"),
        (UnicodeError("label too long"), "name_not_found"),
        (refused_certificate(10), "tls_certificate_expired"),
        (refused_certificate(9), "tls_certificate_not_yet_valid"),
        (refused_certificate(18), "tls_unknown_issuer"),
        (refused_certificate(20), "tls_unknown_issuer"),
        (refused_certificate(62), "tls_host_name_mismatch"),
        (refused_certificate(64), "tls_host_name_mismatch"),
        (refused_certificate(23), "tls_certificate_refused"),
        (tls("WRONG_VERSION_NUMBER"), "tls_not_spoken"),
        (tls("TLSV1_ALERT_PROTOCOL_VERSION"), "tls_alert"),
        (tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "tls_client_certificate_refused"),
        (tls("TLSV1_ALERT_UNKNOWN_CA"), "tls_client_certificate_refused"),
        (tls("SSLV3_ALERT_HANDSHAKE_FAILURE"), "tls_alert"),
        (tls("UNEXPECTED_EOF_WHILE_READING"), "tls_failed"),
        (ConnectionResetError(), "tls_failed"),
        (OverflowError("port"), "connection_failed"),
    ],
)
def test_each_failure_to_connect_has_its_word(error: Exception, word: str) -> None:
    outer = httpx.ConnectError("no")
    outer.__cause__ = error
    assert causes.find_connect_cause(outer, tls=True).word == word


@pytest.mark.parametrize(
    ("error", "answered", "word"),
    [
        (ClosedEarly("closed"), False, "closed_without_answer"),
        (ClosedEarly("closed"), True, "closed_early"),
        (TlsAnswered("tls"), False, "tls_expected"),
        (httpx.RemoteProtocolError("malformed"), False, "protocol_error"),
        (RuntimeError("not of httpx"), True, "connection_broken"),
    ],
)
def test_each_broken_exchange_has_its_word(error: Exception, answered: bool, word: str) -> None:
    assert causes.find_exchange_cause(error, answered=answered).word == word


def test_a_reset_is_a_reset() -> None:
    outer = httpx.ReadError("no")
    outer.__cause__ = ConnectionResetError(errno.ECONNRESET, "reset")
    assert causes.find_exchange_cause(outer, answered=True).word == "connection_reset"


@pytest.mark.parametrize(
    ("status", "words"), [(500, "the server answered 500 (server_error)"), (200, "the server reported")]
)
def test_the_servers_own_words_are_not_the_causes(status: int, words: str) -> None:
    fault = Fault("server_error", "a prompt, quoted", True, status, cause="error_status")
    assert causes.describe_fault(fault).startswith(words)
