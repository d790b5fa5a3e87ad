"""Why a model server could not be reached or its reply broke: from an exception to one word, and words for people.

Callers get the word and the text, which name no address. Operators also get the advice, by
`parley check-config --online`.
"""

import errno
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from app.chat.events import Fault
from app.upstream.http.connection import ClosedEarly, TlsAnswered


@dataclass(frozen=True, slots=True)
class Cause:
    word: str
    text: str
    advice: str = ""


def _cause(word: str, text: str, advice: str = "") -> Cause:
    return Cause(word, text, advice)


REFUSED = _cause("connection_refused", "connection refused", "start the server, or correct host and port in base_url")
NAME_NOT_FOUND = _cause(
    "name_not_found", "name not found", "correct the host in base_url, or check the name service of this machine"
)
UNREACHABLE = _cause("unreachable", "no route to the host", "check the network and the firewall, or correct base_url")
CONNECT_TIMEOUT = _cause(
    "connect_timeout", "connect timeout", "check the network and the firewall, or correct base_url; see connect_seconds"
)
TLS_EXPIRED = _cause("tls_certificate_expired", "TLS certificate expired", "renew the server's certificate")
TLS_NOT_YET = _cause(
    "tls_certificate_not_yet_valid", "TLS certificate not yet valid", "check the clocks of this machine and the server"
)
TLS_ISSUER = _cause(
    "tls_unknown_issuer",
    "TLS certificate self-signed or of an unknown issuer",
    "name the issuer's certificate in SSL_CERT_FILE",
)
TLS_HOST = _cause(
    "tls_host_name_mismatch",
    "TLS certificate of another host name",
    "use a host name in base_url that the certificate names",
)
TLS_CERTIFICATE = _cause("tls_certificate_refused", "TLS certificate refused", "check the server's certificate")
TLS_NOT_SPOKEN = _cause("tls_not_spoken", "plain HTTP where TLS was expected", "write http:// in base_url")
TLS_EXPECTED = _cause("tls_expected", "the server expects TLS", "write https:// in base_url")
TLS_FAILED = _cause("tls_failed", "TLS failed", "see whether the server speaks TLS at this port, and in which versions")
FIRST_BYTE_TIMEOUT = _cause(
    "first_byte_timeout", "first byte timeout", "see whether the server is overloaded; see first_token_seconds"
)
FIRST_TOKEN_TIMEOUT = _cause(
    "first_token_timeout", "first token timeout", "see whether the server is overloaded; see first_token_seconds"
)
IDLE_TIMEOUT = _cause("idle_timeout", "idle timeout", "see whether the server is overloaded; see idle_seconds")
TIMEOUT = _cause("connection_timeout", "the connection timed out", "check the network and the firewall")
RESET = _cause("connection_reset", "connection reset", "see the server's log, and a proxy's")
CLOSED = _cause("closed_without_answer", "connection closed without an answer", "see the server's log, and a proxy's")
CLOSED_EARLY = _cause("closed_early", "connection closed", "see the server's log, and a proxy's")
NOT_FINISHED = _cause("reply_not_finished", "the reply ended before it was finished", "see the server's log")
PROTOCOL = _cause("protocol_error", "the answer is not valid HTTP", "see whether base_url names an HTTP server")
BROKEN = _cause("connection_broken", "the connection broke", "see the server's log")
UNCONNECTED = _cause("connection_failed", "the connection could not be made", "see the server's log, and base_url")
ALL_IN_USE = _cause("connections_in_use", "all connections are in use", "raise max_connections, or add a server")
OUT_OF_FILES = _cause("no_descriptors", "this machine has no file descriptors left", "raise the limit of open files")
ERROR_STATUS = _cause("error_status", "the server answered with an error status", "see what it says in `message`")
ERROR_IN_REPLY = _cause("error_in_reply", "the server reported an error in its reply", "see what it says in `message`")
NOT_A_REPLY = _cause("not_a_reply", "what the server sent is not a model's reply", "see whether base_url is right")
NO_SUCH_PATH = _cause("no_such_path", "the server has no such path", "correct base_url: it mostly ends with /v1")
WRONG_BASE_URL = _cause("wrong_base_url", "the server has no such path, but another base_url works", "correct base_url")

_BY_WORD = {cause.word: cause for cause in list(globals().values()) if isinstance(cause, Cause)}

_BY_ERRNO = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: RESET,
    errno.ECONNABORTED: RESET,
    errno.EPIPE: RESET,
    errno.ETIMEDOUT: TIMEOUT,
    errno.EHOSTUNREACH: UNREACHABLE,
    errno.ENETUNREACH: UNREACHABLE,
    errno.EHOSTDOWN: UNREACHABLE,
    errno.EADDRNOTAVAIL: UNREACHABLE,
    errno.EMFILE: OUT_OF_FILES,
    errno.ENFILE: OUT_OF_FILES,
}
_BY_VERIFY_CODE = {
    9: TLS_NOT_YET,
    10: TLS_EXPIRED,
    **dict.fromkeys((2, 18, 19, 20, 21), TLS_ISSUER),
    **dict.fromkeys((62, 64), TLS_HOST),
}
"""X509_V_ERR_* of OpenSSL."""
_NOT_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
"""What OpenSSL reads out of bytes that are no TLS record. Its names changed between 1.1, 3.0 and 3.2."""
_ERRNO = re.compile(r"\[Errno (-?\d+)\]")


def describe_fault(fault: Fault) -> str:
    """The cause of a fault, without a word of the server's: those may quote the request."""
    if fault.cause == WRONG_BASE_URL.word:
        return fault.message  # the words are ours
    if fault.cause is None or fault.cause in (ERROR_STATUS.word, ERROR_IN_REPLY.word):
        told = ERROR_IN_REPLY.text if fault.status in (None, 200) else f"the server answered {fault.status}"
        return f"{told} ({fault.code})"
    cause = by_word(fault.cause)
    return fault.cause if cause is None else cause.text


def by_word(word: str) -> Cause | None:
    return _BY_WORD.get(word)


def of_fault(fault: Fault) -> Cause:
    """The cause of a fault that the server or its reply shows."""
    if fault.status is not None and fault.status != 200:
        return NOT_A_REPLY if fault.code == "upstream_protocol" else ERROR_STATUS
    by_code = {"upstream_incomplete": NOT_FINISHED, "upstream_protocol": NOT_A_REPLY}
    return by_code.get(fault.code, ERROR_IN_REPLY)


def connect_cause(error: BaseException, *, tls: bool) -> Cause:
    """Why there is no connection. A reset that is no refusal happened in the TLS handshake."""
    cause = _first_known_cause(error) or UNCONNECTED
    return TLS_FAILED if tls and cause is RESET else cause


def exchange_cause(error: BaseException, *, answered: bool) -> Cause:
    """Why an exchange broke; `answered` says whether the head of a response had come."""
    if isinstance(error, TlsAnswered):
        return TLS_EXPECTED
    if isinstance(error, ClosedEarly):
        return CLOSED_EARLY if answered else CLOSED
    if isinstance(error, httpx.ProtocolError):
        return PROTOCOL
    return _first_known_cause(error) or BROKEN


def _first_known_cause(error: BaseException) -> Cause | None:
    causes = (_cause_of_error(one) for one in _chain(error))
    return next((cause for cause in causes if cause is not None), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that caused it, the first cause first."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found:
        found.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return reversed(found)


def _cause_of_error(error: BaseException) -> Cause | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _BY_VERIFY_CODE.get(error.verify_code, TLS_CERTIFICATE)
    if isinstance(error, ssl.SSLError):
        return TLS_NOT_SPOKEN if error.reason in _NOT_TLS else TLS_FAILED
    if isinstance(error, socket.gaierror | UnicodeError):  # a name that cannot be encoded is no name
        return NAME_NOT_FOUND
    if isinstance(error, ClosedEarly):
        return CLOSED
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    if isinstance(error, ConnectionError) and not error.errno:
        return RESET
    return _cause_of_errno(error) if isinstance(error, OSError) else None


def _cause_of_errno(error: OSError) -> Cause | None:
    """A host with several addresses fails with one error that has no number and quotes those of all."""
    numbers = [error.errno] if error.errno else [int(found) for found in _ERRNO.findall(str(error))]
    known = [_BY_ERRNO[number] for number in numbers if number in _BY_ERRNO]
    return REFUSED if REFUSED in known else next(iter(known), None)
