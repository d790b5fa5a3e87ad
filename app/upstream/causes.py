"""Map exceptions to the causes of upstream faults: a code word, a text and advice.

Callers get the word and the text, which name no address. Operators also get the advice, from
`parley check-config --online`. docs/reference/errors.md lists the causes.
"""

import errno
import re
import socket
import ssl
from collections.abc import Iterator

import httpx
import msgspec
from msgspec import Struct

from app.chat.events import Fault
from app.upstream.http.connection import ClosedEarly, TlsAnswered
from app.upstream.http.tunnel import ProxyRefused, ProxyUnreachable


class Cause(Struct, frozen=True):
    word: str
    text: str
    advice: str = ""


def _cause(word: str, text: str, advice: str = "") -> Cause:
    return Cause(word, text, advice)


REFUSED = _cause("connection_refused", "connection refused", "start the server, or correct host and port in base_url")
NAME_NOT_FOUND = _cause(
    "name_not_found", "name not found", "correct the host in base_url, or check how this machine resolves names (DNS)"
)
UNREACHABLE = _cause("unreachable", "no route to the host", "check the network and the firewall, or correct base_url")
CONNECT_TIMEOUT = _cause(
    "connect_timeout",
    "connect timeout",
    "check the network and the firewall, or correct base_url, or raise connect_seconds",
)
TLS_EXPIRED = _cause("tls_certificate_expired", "TLS certificate expired", "renew the server's certificate")
TLS_NOT_YET = _cause(
    "tls_certificate_not_yet_valid", "TLS certificate not yet valid", "check the clocks of this machine and the server"
)
TLS_ISSUER = _cause(
    "tls_unknown_issuer",
    "TLS certificate self-signed or of an unknown issuer",
    "name the issuer's certificate in ca_file of the upstream, or in SSL_CERT_FILE",
)
TLS_HOST = _cause(
    "tls_host_name_mismatch",
    "TLS certificate of another host name",
    "use a host name in base_url that the certificate names",
)
TLS_CERTIFICATE = _cause("tls_certificate_refused", "TLS certificate refused", "check the server's certificate")
TLS_NOT_SPOKEN = _cause("tls_not_spoken", "plain HTTP where TLS was expected", "write http:// in base_url")
TLS_EXPECTED = _cause("tls_expected", "the server expects TLS", "write https:// in base_url")
TLS_CLIENT_REFUSED = _cause(
    "tls_client_certificate_refused",
    "the server refused the gateway's TLS certificate, or demands one",
    "set client_certificate of the upstream to a certificate that the server accepts",
)
TLS_ALERT = _cause(
    "tls_alert",
    "the server refused TLS",
    "check which TLS versions and host names the server accepts, and whether it demands a client_certificate",
)
TLS_FAILED = _cause("tls_failed", "TLS failed", "check that the server speaks TLS on this port, and in which versions")
PROXY_UNREACHABLE = _cause(
    "proxy_unreachable",
    "no connection to the proxy",
    "correct proxy of the upstream, or the variables HTTPS_PROXY and NO_PROXY",
)
PROXY_REFUSED = _cause(
    "proxy_refused",
    "the proxy opened no connection to the server",
    "check the proxy's user, password and rules, or name the host in NO_PROXY",
)
FIRST_BYTE_TIMEOUT = _cause(
    "first_byte_timeout", "first byte timeout", "check whether the server is overloaded, or raise first_token_seconds"
)
FIRST_TOKEN_TIMEOUT = _cause(
    "first_token_timeout", "first token timeout", "check whether the server is overloaded, or raise first_token_seconds"
)
IDLE_TIMEOUT = _cause("idle_timeout", "idle timeout", "check whether the server is overloaded, or raise idle_seconds")
DEADLINE = _cause(
    "deadline_exceeded",
    "no token before the model's deadline",
    "check whether the servers are overloaded, or raise deadline_seconds",
)
TIMEOUT = _cause("connection_timeout", "the connection timed out", "check the network and the firewall")
RESET = _cause("connection_reset", "connection reset", "read the log of the server, and of a proxy in front of it")
CLOSED = _cause(
    "closed_without_answer",
    "connection closed without an answer",
    "read the log of the server, and of a proxy in front of it",
)
CLOSED_EARLY = _cause("closed_early", "connection closed", "read the log of the server, and of a proxy in front of it")
NOT_FINISHED = _cause("reply_not_finished", "the reply ended before it was finished", "read the server's log")
PROTOCOL = _cause("protocol_error", "the answer is not valid HTTP", "check that base_url names an HTTP server")
BROKEN = _cause("connection_broken", "the connection broke", "read the server's log")
UNCONNECTED = _cause(
    "connection_failed", "the connection could not be made", "read the server's log, and check base_url"
)
ALL_IN_USE = _cause("connections_in_use", "all connections are in use", "raise max_connections, or add a server")
OUT_OF_FILES = _cause("no_descriptors", "this machine has no file descriptors left", "raise the limit of open files")
ERROR_STATUS = _cause(
    "error_status", "the server answered with an error status", "read the server's own message in `message`"
)
ERROR_IN_REPLY = _cause(
    "error_in_reply", "the server reported an error in its reply", "read the server's own message in `message`"
)
NOT_A_REPLY = _cause("not_a_reply", "what the server sent is not a model's reply", "check that base_url is right")
EMPTY_REPLY = _cause(
    "empty_reply",
    "the reply was empty",
    'read the server\'s log; if the model may answer with nothing, set empty_replies = "accept" in its profile',
)
REASONING_REFUSED = _cause(
    "reasoning_refused",
    "the server cannot verify the reasoning of earlier turns",
    "send requests of one conversation to one account; for Claude, set thinking_binding in the model's profile",
)
CREDENTIAL = _cause(
    "credential",
    "the gateway has no valid credential for the server",
    "read the log lines of parley.credentials; run api_key_command as the gateway's user, or look at api_key_file",
)
REPLY_TOO_LARGE = _cause(
    "reply_too_large", "the reply is larger than the gateway accepts", "raise max_reply_bytes, or limit max_tokens"
)
NO_SUCH_PATH = _cause("no_such_path", "the server has no such path", "correct base_url: it usually ends with /v1")
WRONG_BASE_URL = _cause("wrong_base_url", "the server has no such path, but another base_url works", "correct base_url")

NETWORK_WORDS = frozenset(
    cause.word
    for cause in (
        REFUSED,
        NAME_NOT_FOUND,
        UNREACHABLE,
        CONNECT_TIMEOUT,
        TLS_EXPIRED,
        TLS_NOT_YET,
        TLS_ISSUER,
        TLS_HOST,
        TLS_CERTIFICATE,
        TLS_NOT_SPOKEN,
        TLS_EXPECTED,
        TLS_CLIENT_REFUSED,
        TLS_ALERT,
        TLS_FAILED,
        PROXY_UNREACHABLE,
        PROXY_REFUSED,
        TIMEOUT,
        UNCONNECTED,
    )
)
"""The causes that lie between the gateway and the server: no connection was made, or the network lost it. A server that
crashes resets its connections, so a reset is not one of them."""

LASTING_WORDS = frozenset(
    cause.word
    for cause in (
        TLS_EXPIRED,
        TLS_NOT_YET,
        TLS_ISSUER,
        TLS_HOST,
        TLS_CERTIFICATE,
        TLS_NOT_SPOKEN,
        TLS_EXPECTED,
        TLS_CLIENT_REFUSED,
        TLS_ALERT,
        PROXY_REFUSED,
        CREDENTIAL,
    )
)
"""The causes that a second request to the same server would meet again."""
_OF_ACCOUNT = frozenset(("authentication", "permission", "insufficient_quota", "not_found"))
"""The codes of what a server refuses the gateway's account there: its key, its money, the model."""


def is_of_account(fault: Fault) -> bool:
    """Whether the server refuses the gateway's account there."""
    return fault.code in _OF_ACCOUNT


def is_of_server(fault: Fault) -> bool:
    """Whether another server may answer, though this one would refuse the request again."""
    is_no_reply = fault.code == "upstream_protocol" and fault.cause != REPLY_TOO_LARGE.word
    return fault.cause in LASTING_WORDS or is_of_account(fault) or is_no_reply


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
"""The causes by OpenSSL's codes X509_V_ERR_*."""
_NOT_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
"""The reasons OpenSSL gives for bytes that are not a TLS record; they differ between versions 1.1, 3.0 and 3.2."""
_ALERT = re.compile(r"(?:TLSV?1?3?|SSLV3)_ALERT_(\w+)")
"""The name of an alert that the server sent, in OpenSSL's reasons, such as TLSV1_ALERT_UNKNOWN_CA."""
_UNEXPLAINED = "HANDSHAKE_FAILURE"
"""So a server with TLS 1.2 that demands a certificate refuses a client without one, and others that share no cipher."""
_ABOUT_OUR_CERTIFICATE = {
    "BAD_CERTIFICATE",
    "UNSUPPORTED_CERTIFICATE",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REQUIRED",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
}
_ERRNO = re.compile(r"\[Errno (-?\d+)\]")


def describe_fault(fault: Fault) -> str:
    """Describe a fault without the server's own message, which may quote the request."""
    if fault.cause == WRONG_BASE_URL.word:
        return fault.message  # this message is the gateway's own
    if fault.cause is None or fault.cause in (ERROR_STATUS.word, ERROR_IN_REPLY.word):
        text = ERROR_IN_REPLY.text if fault.status in (None, 200) else f"the server answered {fault.status}"
        return f"{text} ({fault.code})"
    cause = find_by_word(fault.cause)
    return fault.cause if cause is None else cause.text


def find_by_word(word: str) -> Cause | None:
    return _BY_WORD.get(word)


def find_cause(fault: Fault) -> Cause:
    """Return the cause of a fault that the server reported or that its reply shows."""
    if fault.status is not None and fault.status != 200:
        return NOT_A_REPLY if fault.code == "upstream_protocol" else ERROR_STATUS
    by_code = {"upstream_incomplete": NOT_FINISHED, "upstream_protocol": NOT_A_REPLY}
    return by_code.get(fault.code, ERROR_IN_REPLY)


def find_connect_cause(error: BaseException, *, tls: bool) -> Cause:
    """Return why no connection could be made. With TLS, a reset means that the handshake failed."""
    if isinstance(error, ProxyUnreachable):
        return PROXY_UNREACHABLE
    if isinstance(error, ProxyRefused):
        return msgspec.structs.replace(PROXY_REFUSED, text=f"{PROXY_REFUSED.text}: {error}")
    cause = _first_known_cause(error) or UNCONNECTED
    return TLS_FAILED if tls and cause is RESET else cause


def find_exchange_cause(error: BaseException, *, answered: bool) -> Cause:
    """Return why an exchange broke; `answered` says whether the response's head had arrived."""
    if isinstance(error, TlsAnswered):
        return TLS_EXPECTED
    if isinstance(error, ClosedEarly):
        return CLOSED_EARLY if answered else CLOSED
    if isinstance(error, httpx.ProtocolError):
        return PROTOCOL
    return _first_known_cause(error) or BROKEN


def _first_known_cause(error: BaseException) -> Cause | None:
    causes = (_cause_of_error(link) for link in _chain(error))
    return next((cause for cause in causes if cause is not None), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and those that caused it, the root cause first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return reversed(chain)


def _cause_of_error(error: BaseException) -> Cause | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _BY_VERIFY_CODE.get(error.verify_code, TLS_CERTIFICATE)
    if isinstance(error, ssl.SSLError):
        return _cause_of_tls(error.reason or "")
    if isinstance(error, socket.gaierror | UnicodeError):  # UnicodeError: the host name cannot be encoded
        return NAME_NOT_FOUND
    if isinstance(error, ClosedEarly):
        return CLOSED
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    if isinstance(error, ConnectionError) and not error.errno:
        return RESET
    return _cause_of_errno(error) if isinstance(error, OSError) else None


def _cause_of_tls(reason: str) -> Cause:
    if reason in _NOT_TLS:
        return TLS_NOT_SPOKEN
    alert = _ALERT.fullmatch(reason)
    if alert is None:
        return TLS_FAILED
    cause = TLS_CLIENT_REFUSED if alert[1] in _ABOUT_OUR_CERTIFICATE else TLS_ALERT
    if alert[1] == _UNEXPLAINED:
        cause = msgspec.structs.replace(cause, text=f"{cause.text}: perhaps it demands a client certificate")
    return msgspec.structs.replace(cause, text=f"{cause.text} (alert: {alert[1].replace('_', ' ').lower()})")


def _cause_of_errno(error: OSError) -> Cause | None:
    """Return the cause of an OSError. For a host with several addresses, asyncio raises one error without a number; its
    text has a number for each address."""
    numbers = [error.errno] if error.errno else [int(digits) for digits in _ERRNO.findall(str(error))]
    known = [_BY_ERRNO[number] for number in numbers if number in _BY_ERRNO]
    return REFUSED if REFUSED in known else next(iter(known), None)
