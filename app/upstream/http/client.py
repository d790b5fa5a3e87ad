"""Send requests to model servers and return each response as soon as its head has arrived.

The transport is called directly. `httpx.AsyncClient` around it would follow redirects with the API key and keep the
cookies of all callers in one jar; a gateway must do neither.
"""

import asyncio
import codecs
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar

import httpx
import msgspec

from app import __version__
from app.chat.events import Fault
from app.chat.stream import CallRecorder, ExchangeRecorder
from app.chat.token_usage import read_count
from app.errors import UpstreamFailed
from app.runtime.decompress import NotCompressed, decompressor_for
from app.upstream import causes, faults
from app.upstream.api import ApiName, find_api
from app.upstream.credential_output import Credential
from app.upstream.credentials import CredentialUnavailable, RenewingCredential
from app.upstream.http.options import DEFAULT_OPTIONS, ConnectionOptions
from app.upstream.http.pool import PoolKey, ServerAddress
from app.upstream.http.recorded_body import RecordedBody
from app.upstream.http.transport import (
    LongBody,
    PushStream,
    PushTransport,
    RequestHead,
    ResponseBody,
    UpstreamTransport,
    make_request_head,
)
from app.upstream.redaction import EMPTY_REDACTOR, Redactor
from app.upstream.reply.odd_json import clean, load

log = logging.getLogger("parley.credentials")

MAX_ERROR_BYTES = 256 * 1024
MAX_LIST_BYTES = 8 * 1024 * 1024
MAX_EMBEDDINGS_BYTES = 64 * 1024 * 1024
MANY_BYTES = 64 * 1024
"""A longer model list is parsed in another thread."""
ERROR_BODY_SECONDS = 10.0
"""How long the client reads the body of an error."""
GRACE_SECONDS = 2.0
_Utf8Decoder = codecs.getincrementaldecoder("utf-8")
_UNAUTHORIZED = 401
UNLISTED = "the model server lists no models: "


_T = TypeVar("_T")
NO_HEAD = RequestHead(ServerAddress("", "", 0, PoolKey("", 0)), b"")


@dataclass(frozen=True, slots=True)
class Target:
    """A model server: its address, the headers of every request, and the limits of every reply."""

    name: str
    base_url: str
    headers: httpx.Headers
    """Sent with every request; includes `host`."""
    connect_seconds: float
    first_token_seconds: float
    idle_seconds: float
    max_connections: int
    max_reply_bytes: int
    """The limit of one reply, decompressed."""
    max_reply_seconds: float
    """The limit from sending the request to the end of the reply."""
    whole_reply_seconds: float
    """The limit of a reply that is not streamed."""
    variant: tuple[tuple[str, str], ...] = ()
    """The headers that may change the server's answer; they are part of the cache key."""
    redactor: Redactor = field(default=EMPTY_REDACTOR, compare=False, repr=False)
    grace_seconds: float = GRACE_SECONDS
    """After its finish reason, how long the server has to send the usage and to end the body."""
    chat_head: RequestHead = field(default=NO_HEAD, compare=False, repr=False)
    """What each chat request to it begins with."""
    connections: ConnectionOptions = DEFAULT_OPTIONS
    """How connections to it are made."""
    api: ApiName = "chat_completions"
    """The API of its replies."""
    query: str = ""
    """Of the URL of each request; it may hold a key."""
    auth: Literal["bearer"] | None = None
    """Where `credential` is sent, if that is not the API's own place."""
    credential: RenewingCredential | None = None
    """The key, if it is renewed while the gateway runs; `headers` has none then."""
    paths: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The paths of endpoints at this server, where it has another one than its clients."""
    _for_whole_reply: "list[Target]" = field(default_factory=list, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.chat_head is NO_HEAD:
            head = make_request_head(b"POST", self.url(self.reply_path), self.headers, self.pool_key)
            object.__setattr__(self, "chat_head", head)

    def with_timeout(self, seconds: float) -> "Target":
        """Return a copy in which no single wait is longer than `seconds`."""
        return replace(
            self,
            connect_seconds=min(self.connect_seconds, seconds),
            first_token_seconds=min(self.first_token_seconds, seconds),
            idle_seconds=min(self.idle_seconds, seconds),
            whole_reply_seconds=min(self.whole_reply_seconds, seconds),
        )

    def for_whole_reply(self) -> "Target":
        """Return a copy for a reply that is not streamed: its first byte comes only when the model has finished. It is
        made once."""
        if not self._for_whole_reply:
            self._for_whole_reply.append(replace(self, first_token_seconds=self.whole_reply_seconds))
        return self._for_whole_reply[0]

    @property
    def reply_path(self) -> str:
        """The path of requests for replies, below the base_url."""
        return find_api(self.api).path

    @property
    def pool_key(self) -> PoolKey:
        return PoolKey(self.name, self.max_connections, self.connections)

    def url(self, path: str) -> httpx.URL:
        if not self.query:
            return _url(self.base_url + path)
        return _url(f"{self.base_url}{path}{'&' if '?' in path else '?'}{self.query}")

    def make_key_line(self, credential: Credential) -> tuple[bytes, bytes]:
        """Return the header with a key that is renewed."""
        api = find_api(self.api)
        name, prefix = ("authorization", "Bearer ") if self.auth == "bearer" else (api.key_header, api.key_prefix)
        return name.encode(), (prefix + credential.value).encode()

    def annotate_fault(self, fault: Fault) -> Fault:
        """Add this upstream's name and a cause to the fault, and redact what no caller may see."""
        cause = fault.cause or causes.find_cause(fault).word
        return self.redactor.redact_fault(msgspec.structs.replace(fault, upstream=self.name, cause=cause))


@lru_cache(maxsize=1024)
def _url(text: str) -> httpx.URL:
    return httpx.URL(text)


def request_headers(base_url: str, key_headers: Mapping[str, str], headers: Mapping[str, str]) -> httpx.Headers:
    """Build the headers of every request to a server.

    They ask for an uncompressed body, because a compressor holds tokens back.
    """
    base = {
        "host": httpx.URL(base_url).netloc.decode(),
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"parley/{__version__} httpx/{httpx.__version__}",
    }
    return httpx.Headers({**base, **key_headers} | {name.lower(): value for name, value in headers.items()})


class UpstreamClient:
    def __init__(
        self, transport: UpstreamTransport | None = None, error_body_seconds: float = ERROR_BODY_SECONDS
    ) -> None:
        self._transport = transport or PushTransport()
        self._error_body_seconds = error_body_seconds

    async def open(
        self,
        target: Target,
        body: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        path: str | None = None,
        recorder: CallRecorder | None = None,
    ) -> ResponseBody:
        """Send a chat request and return the response's body once its head has arrived. `headers` are sent in addition
        to those of the target, and in place of the API's own. `path`: where the request is sent, if that is not the
        path of the API.

        Raises UpstreamFailed when the server cannot be reached, or answers with a status other than 200.
        """
        head = target.chat_head
        if path is not None and path != target.reply_path:
            head = make_request_head(b"POST", target.url(path), target.headers, target.pool_key)
        exchange = None if recorder is None else recorder.begin_exchange(target.name, path or target.reply_path, body)
        head = _drop_defaults(target, head, headers) if headers else head
        return await self._open(target, head, body, headers, exchange)

    async def open_url(
        self,
        target: Target,
        url: str,
        body: bytes | LongBody,
        headers: Sequence[tuple[bytes, bytes]] = (),
        content_type: str | None = None,
    ) -> ResponseBody:
        """Send a request to another URL of the server, as `open` does. Raises UpstreamFailed."""
        own = target.headers.copy()
        own["accept"] = "*/*"
        if content_type is not None:
            own["content-type"] = content_type
        address = _url(f"{url}?{target.query}" if target.query else url)
        return await self._open(target, make_request_head(b"POST", address, own, target.pool_key), body, headers)

    def _open(
        self,
        target: Target,
        head: RequestHead,
        body: bytes | LongBody,
        headers: Sequence[tuple[bytes, bytes]],
        exchange: ExchangeRecorder | None = None,
    ) -> Coroutine[Any, Any, ResponseBody]:
        if target.credential is None:
            return self._open_once(target, head, body, headers, exchange)
        return self._open_with_credential(target, target.credential, head, body, headers, exchange)

    async def _open_with_credential(
        self,
        target: Target,
        credential: RenewingCredential,
        head: RequestHead,
        body: bytes | LongBody,
        headers: Sequence[tuple[bytes, bytes]],
        exchange: ExchangeRecorder | None,
    ) -> ResponseBody:
        """Send a request with the present credential, and once more with a new one if the server refuses it."""
        sent = await _get_credential(target, credential)
        try:
            return await self._open_once(target, head, body, [*headers, target.make_key_line(sent)], exchange)
        except UpstreamFailed as failure:
            if failure.fault.status != _UNAUTHORIZED:
                raise
            other = await credential.replace_refused(sent)
            if other is None:
                raise
        return await self._open_once(target, head, body, [*headers, target.make_key_line(other)], exchange)

    async def _open_once(
        self,
        target: Target,
        head: RequestHead,
        body: bytes | LongBody,
        headers: Sequence[tuple[bytes, bytes]],
        exchange: ExchangeRecorder | None = None,
    ) -> ResponseBody:
        try:
            reply = await self._transport.post(head, body, target.connect_seconds, target.first_token_seconds, headers)
        except httpx.TransportError as error:
            if exchange is not None:
                exchange.record_end(error)
            raise UpstreamFailed(make_transport_fault(error, target)) from error
        if exchange is not None:
            reply = RecordedBody(reply, exchange)
        if reply.status != 200:
            response = httpx.Response(reply.status, headers=reply.headers, stream=PushStream(reply))
            raise UpstreamFailed(target.annotate_fault(await self._read_fault(response)))
        if reply.encoding is not None:
            _check_encoding(reply, target)
        return reply

    async def _send(
        self,
        target: Target,
        method: str,
        path: str,
        connect_seconds: float,
        read_seconds: float,
        content: bytes | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> httpx.Response:
        """Send a request that is not for a reply. A POST without a body gets an empty JSON object.

        Raises httpx.TransportError, and UpstreamFailed if there is no credential for the server.
        """
        timeouts = {"connect": connect_seconds, "read": read_seconds}
        credential = target.credential
        if credential is None:
            return await self._send_once(target, method, path, timeouts, content, headers)
        sent = await _get_credential(target, credential)
        lines = [*headers, target.make_key_line(sent)]
        response = await self._send_once(target, method, path, timeouts, content, lines)
        other = await credential.replace_refused(sent) if response.status_code == _UNAUTHORIZED else None
        if other is None:
            return response
        await response.aclose()
        return await self._send_once(target, method, path, timeouts, content, [*headers, target.make_key_line(other)])

    async def _send_once(
        self,
        target: Target,
        method: str,
        path: str,
        timeouts: Mapping[str, float],
        content: bytes | None,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> httpx.Response:
        request = httpx.Request(
            method,
            target.url(path),
            headers=_add_headers(target, headers) if headers else target.headers,
            content=b"{}" if content is None and method == "POST" else content,
            extensions={"timeout": timeouts, "pool_key": target.pool_key},
        )
        return await self._transport.handle_async_request(request)

    async def _read_fault(self, response: httpx.Response) -> Fault:
        """Read the error body, up to a limit of size and time, and return the fault it describes."""
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(self._error_body_seconds):
                await _read_body(response, chunks, MAX_ERROR_BYTES)
        except (TimeoutError, httpx.TransportError):
            pass  # what has arrived describes it
        finally:
            await response.aclose()
        return _parse_fault(response, b"".join(chunks))

    async def models(self, target: Target) -> list[dict[str, Any]]:
        """Fetch the rows of the server's `/models` list. No wait is longer than `connect_seconds`.

        Raises UpstreamFailed.
        """
        try:
            api = find_api(target.api)
            data = await self._fetch(target.with_timeout(target.connect_seconds), "GET", api.list_path, MAX_LIST_BYTES)
            rows = await _parse(parse_model_list, data, target, "a JSON list of models")
            return rows if api.read_listed is None else list(map(api.read_listed, rows))
        except UpstreamFailed as error:
            raise UpstreamFailed(
                msgspec.structs.replace(error.fault, message=UNLISTED + error.fault.message)
            ) from error

    async def embeddings(self, target: Target, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Fetch the embeddings of texts, in their order, from the server's `/embeddings`. Raises UpstreamFailed."""
        body = msgspec.json.encode({"model": model, "input": texts, "encoding_format": "float"})
        data = await self._fetch(target, "POST", "/embeddings", MAX_EMBEDDINGS_BYTES, body)
        return await _parse(partial(_parse_embeddings, count=len(texts)), data, target, "a list of embeddings")

    async def count_tokens(
        self, target: Target, path: str, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> dict[str, Any]:
        """Ask for the number of a request's input tokens, and return the server's answer, whose `input_tokens` is one.
        `headers` are sent as by `open`. Raises UpstreamFailed."""
        data = await self._fetch(target, "POST", path, MAX_ERROR_BYTES, body, headers)
        parse = partial(_parse_token_count, name=find_api(target.api).counted_name)
        return await _parse(parse, data, target, "a number of tokens")

    async def compact(
        self, target: Target, path: str, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> dict[str, Any]:
        """Ask for a compaction, and return the server's answer. `headers` are as for `open`. Raises UpstreamFailed."""
        data = await self._fetch(target, "POST", path, target.max_reply_bytes, body, headers)
        return await _parse(_parse_compaction, data, target, "a compaction")

    async def _fetch(
        self,
        target: Target,
        method: str,
        path: str,
        max_bytes: int,
        content: bytes | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> bytes:
        """Send a request and return the whole body of its answer. Raises UpstreamFailed."""
        chunks: list[bytes] = []
        try:
            response = await self._send(
                target, method, path, target.connect_seconds, target.first_token_seconds, content, headers
            )
        except httpx.TransportError as error:
            raise UpstreamFailed(make_transport_fault(error, target)) from error
        if response.status_code != 200:
            raise UpstreamFailed(target.annotate_fault(await self._read_fault(response)))
        try:
            async with asyncio.timeout(target.idle_seconds):
                await _read_body(response, chunks, max_bytes)
        except TimeoutError as error:
            text = f"the answer was not complete within {target.idle_seconds:g} s"
            fault = faults.make_fault("timeout", text, upstream=target.name, cause=causes.IDLE_TIMEOUT.word)
            raise UpstreamFailed(fault) from error
        except httpx.TransportError as error:
            raise UpstreamFailed(make_transport_fault(error, target, answered=True)) from error
        finally:
            await response.aclose()
        try:
            return decompressor_for(response.headers.get("content-encoding")).feed(b"".join(chunks))
        except ValueError as error:
            fault = faults.make_fault("upstream_protocol", f"its answer cannot be read: {error}", status=200)
            raise UpstreamFailed(target.annotate_fault(fault)) from error

    async def status(self, target: Target, method: str, path: str, seconds: float) -> int | None:
        """Send a request without content and return the status; None without an answer within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                response = await self._send(target, method, path, seconds, seconds)
        except (TimeoutError, httpx.TransportError, UpstreamFailed):
            return None
        await response.aclose()
        return response.status_code

    async def aclose(self) -> None:
        await self._transport.aclose()


async def _get_credential(target: Target, credential: RenewingCredential) -> Credential:
    """Raises UpstreamFailed."""
    try:
        return await credential.get()
    except CredentialUnavailable as error:
        log.debug("upstream %s: %s", target.name, error)
        text = "the gateway has no valid credential for the model server"  # the log says why: that is not for callers
        fault = faults.make_fault("authentication", text, upstream=target.name, cause=causes.CREDENTIAL.word)
        raise UpstreamFailed(fault) from None


def _check_encoding(body: ResponseBody, target: Target) -> None:
    """Raises UpstreamFailed if the body has an encoding that was not asked for and is not known."""
    try:
        decompressor_for(body.encoding)
    except ValueError as error:
        body.abort()
        fault = faults.make_fault("upstream_protocol", f"the model server sent {error}", status=200)
        raise UpstreamFailed(target.annotate_fault(fault)) from None


async def _read_body(response: httpx.Response, chunks: list[bytes], limit: int) -> None:
    """Append the body's raw bytes to `chunks`; stop reading once they exceed `limit`."""
    if response.is_stream_consumed:
        chunks.append(response.content)
        return
    async for chunk in response.aiter_raw():
        chunks.append(chunk)
        limit -= len(chunk)
        if limit < 0:
            return


def _find_replaced(target: Target, headers: Sequence[tuple[bytes, bytes]]) -> set[bytes]:
    """Return the names of those headers that the API has a default for: a second line would make it a list."""
    own = find_api(target.api).headers
    return {name for name, _ in headers if name.decode("latin-1") in own} if own else set()


def _drop_defaults(target: Target, head: RequestHead, headers: Sequence[tuple[bytes, bytes]]) -> RequestHead:
    """Return the head of a request for a reply without what these headers replace."""
    replaced = _find_replaced(target, headers)
    if not replaced:
        return head
    lines = head.data.split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].lower() not in replaced]
    return RequestHead(head.address, b"\r\n".join(kept))


def _add_headers(target: Target, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    replaced = _find_replaced(target, headers)
    return [*(line for line in target.headers.raw if line[0].lower() not in replaced), *headers]


def _parse_fault(response: httpx.Response, body: bytes) -> Fault:
    headers: Mapping[str, str] = response.headers
    unreadable = ""
    try:
        body = decompressor_for(headers.get("content-encoding")).feed(body)[:MAX_ERROR_BYTES]
    except NotCompressed:
        pass  # some servers and proxies name an encoding that they do not use for errors
    except ValueError as error:
        if not _is_text(body):
            body, unreadable = b"", f"the model server gave a reason that cannot be read: {error}"
    status = response.status_code
    if 300 <= status < 400:
        text = f"the model server answered with a redirect ({status}), which is not followed; is its base_url right?"
        return faults.make_fault("upstream_protocol", text, status=status)
    if status < 300:
        return faults.make_fault(
            "upstream_protocol", f"the model server answered {status} instead of 200", status=status
        )
    fault = faults.from_response(status, headers, body, datetime.now(UTC))
    return msgspec.structs.replace(fault, message=unreadable) if unreadable else fault


def _is_text(body: bytes) -> bool:
    """Whether a body, whose end may be missing, is JSON or a web page. Compressed bytes are hardly ever valid UTF-8."""
    try:
        text = _Utf8Decoder().decode(body)
    except UnicodeDecodeError:
        return False
    return text.lstrip().startswith(("{", "[", "<"))


def parse_model_list(data: bytes) -> list[dict[str, Any]]:
    """Parse a model list. Raises ValueError for invalid JSON and RecursionError where it is nested too deeply."""
    try:
        body = msgspec.json.decode(data)
    except msgspec.DecodeError:
        body = clean(load(data))
    rows = body.get("data") if isinstance(body, dict) else None
    if isinstance(rows, list):
        return [row for row in rows if isinstance(row, dict)]
    named = body.get("models") if isinstance(body, dict) else None
    rows = [row for row in named if isinstance(row, dict)] if isinstance(named, list) else []
    return [{**row, "id": row["name"]} if isinstance(row.get("name"), str) else row for row in rows]


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Embedding]


_decode_embeddings = msgspec.json.Decoder(_Embeddings).decode


def _parse_embeddings(data: bytes, count: int) -> list[list[float]]:
    """Parse embeddings in the order of their texts. Raises ValueError if there are not as many."""
    rows = sorted(_decode_embeddings(data).data, key=lambda row: row.index)
    if len(rows) != count or len({len(row.embedding) for row in rows}) > 1:
        raise ValueError("another number of embeddings, or embeddings of different lengths")
    return [row.embedding for row in rows]


def _parse_token_count(data: bytes, name: str) -> dict[str, Any]:
    """Parse a number of tokens, whose field has this name. Raises ValueError, and RecursionError where the JSON is
    nested too deeply."""
    answer = msgspec.json.decode(data, type=dict[str, Any])
    if name in answer:
        answer["input_tokens"] = answer[name]
    if read_count(answer.get("input_tokens")) is None:
        raise ValueError("no number of tokens")
    return answer


def _parse_compaction(data: bytes) -> dict[str, Any]:
    """As `_parse_token_count`."""
    answer = msgspec.json.decode(data, type=dict[str, Any])
    items = answer.get("output")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("no list of items")
    if not any(str(item.get("type")).startswith("compaction") for item in items):
        raise ValueError("no compaction")
    return answer


async def _parse(parse: Callable[[bytes], _T], data: bytes, target: Target, what: str) -> _T:
    """Parse an answer, a long one in a thread. Raises UpstreamFailed."""
    try:
        return await asyncio.to_thread(parse, data) if len(data) > MANY_BYTES else parse(data)
    except (ValueError, RecursionError) as error:  # RecursionError: the JSON is nested too deeply to parse
        fault = faults.make_fault("upstream_protocol", f"its answer is not {what}", status=200)
        raise UpstreamFailed(target.annotate_fault(fault)) from error


def make_transport_fault(error: Exception, target: Target, *, answered: bool = False) -> Fault:
    """Turn an error of the transport into a fault whose message names no internal address.

    `answered` says whether the head of the response had arrived.
    """
    code, cause, message = _explain_transport_error(error, target, answered)
    fault = faults.make_fault(code, message, upstream=target.name, cause=cause.word)
    return msgspec.structs.replace(fault, transient=False) if cause.word in causes.LASTING_WORDS else fault


def _explain_transport_error(error: Exception, target: Target, answered: bool) -> tuple[str, causes.Cause, str]:
    if isinstance(error, httpx.ConnectTimeout):
        text = f"no connection to the model server within {target.connect_seconds:g} s"
        return "timeout", causes.CONNECT_TIMEOUT, text
    if isinstance(error, httpx.ReadTimeout):
        text = f"the model server did not answer within {target.first_token_seconds:g} s"
        return "timeout", causes.FIRST_BYTE_TIMEOUT, text
    if isinstance(error, httpx.PoolTimeout):
        return "overloaded", causes.ALL_IN_USE, "all connections to the model server are in use"
    if isinstance(error, httpx.ConnectError):
        cause = causes.find_connect_cause(error, tls=target.base_url.startswith("https:"))
        return "server_error", cause, f"no connection to the model server: {cause.text}"
    cause = causes.find_exchange_cause(error, answered=answered)
    if not answered:
        return "upstream_incomplete", cause, f"no answer from the model server: {cause.text}"
    text = "the connection to the model server broke before its reply was finished"
    return "upstream_incomplete", cause, f"{text}: {cause.text}"
