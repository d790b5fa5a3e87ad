"""Requests to a gateway: a reply as frames, even after a lost connection, and the list of models."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import httpx
from msgspec import Struct

from app.terminal.frames import Frame, NotParley, frames

RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The waits before a broken connection is tried again. After the last one the reply has failed."""
ELSEWHERE = "Is a gateway running there? For one at another address or port, use --url or PARLEY_URL"

_TIMEOUT = httpx.Timeout(60, connect=10)  # a gateway sends a heartbeat every 15 seconds
_CANCEL_TIMEOUT = httpx.Timeout(3)
_MAX_ERROR_CHARACTERS = 300
_PASSING = (502, 503, 504)
"""What a proxy answers while a gateway restarts."""
_ENDS = ("response.completed", "response.failed")


class RequestFailed(Exception):
    """The gateway cannot be reached, refused the request, or the reply failed. The message is for the user."""


class Unreachable(RequestFailed):
    """No connection could be made."""


class Gateway(Struct, frozen=True):
    """A gateway, and the key that is sent to it."""

    url: str
    api_key: str | None = None
    transport: httpx.BaseTransport | None = None
    retry_seconds: Sequence[float] = RETRY_SECONDS

    def stream(self, body: Mapping[str, object], on_lost: Callable[[str], None]) -> Generator[Frame, None, None]:
        """Yield the frames of the reply until its last one, which is the only `response.completed`.

        A connection that breaks after the first frame is resumed; `on_lost` then gets a sentence for the user. If the
        iteration ends early, for example by Ctrl-C, the gateway is asked to stop the reply. Raises RequestFailed.
        """
        position = _Position()
        try:
            with self._client() as client:
                yield from self._resume_until_end(client, body, position, on_lost)
        except BaseException as error:
            if not isinstance(error, RequestFailed) and position.id is not None and not position.ended:
                self._cancel(position.id)
            raise

    def models(self) -> list[dict[str, Any]]:
        """Return the rows of the gateway's model list. Raises RequestFailed."""
        return self._list_models("/v1/models")[0]

    def list_for_agents(self, version: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows, with the windows that the model servers list, and the same models in Codex's form; without
        those if the gateway does not have them. Raises RequestFailed."""
        return self._list_models(f"/v1/models?client_version={version}")

    def _list_models(self, path: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        try:
            body = self._request("GET", path)
            rows = [row for row in body["data"] if isinstance(row.get("id"), str)]
            return rows, [entry for entry in body.get("models") or () if isinstance(entry.get("slug"), str)]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise RequestFailed(f"{self.url} does not answer with a list of models. {ELSEWHERE}") from None

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return the JSON object with which the gateway answers. Raises RequestFailed."""
        try:
            answer = self._request(method, path, body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise RequestFailed(f"{self.url} does not answer like a Parley. {ELSEWHERE}")
        return answer

    def _request(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Return the JSON of the answer. Raises RequestFailed, and ValueError or RecursionError for anything else."""
        try:
            with self._client() as client:
                response = client.request(method, f"{self._base}{path}", headers=self._headers, json=body)
        except httpx.HTTPError as error:
            raise self._explain(error) from error
        if response.status_code not in (200, 201):
            raise RequestFailed(_describe_response(response))
        return response.json()

    def _resume_until_end(
        self,
        client: httpx.Client,
        body: Mapping[str, object],
        position: "_Position",
        on_lost: Callable[[str], None],
    ) -> Iterator[Frame]:
        waits = iter(self.retry_seconds)
        while True:
            read_before = position.seq
            try:
                with self._open(client, body, position) as response:
                    for frame in self._read_frames(response, position):
                        yield frame
                        if position.ended:
                            return
                lost = RequestFailed("the reply ended before it was complete")
            except httpx.HTTPError as error:
                lost = self._explain(error)
            except _TryAgain as error:
                lost = RequestFailed(str(error))
            if position.seq != read_before:
                waits = iter(self.retry_seconds)
            seconds = next(waits, None)
            if not position.can_resume or seconds is None:
                raise lost
            on_lost(f"the connection broke; the reply is resumed in {seconds:g} s")
            time.sleep(seconds)

    @contextlib.contextmanager
    def _open(
        self, client: httpx.Client, body: Mapping[str, object], position: "_Position"
    ) -> Iterator[httpx.Response]:
        accept = {**self._headers, "accept": "text/event-stream"}
        if position.can_resume:
            url = f"{self._base}/v1/chat/{position.id}/events"
            request = client.build_request("GET", url, params={"after": position.seq}, headers=accept)
        else:
            # json.dumps escapes to ASCII: typed text may hold half surrogate pairs, which UTF-8 cannot encode.
            content, accept["content-type"] = json.dumps(body), "application/json"
            request = client.build_request("POST", f"{self._base}/v1/chat", content=content, headers=accept)
        response = client.send(request, stream=True)
        try:
            yield response
        finally:
            response.close()

    def _read_frames(self, response: httpx.Response, position: "_Position") -> Iterator[Frame]:
        if response.status_code in _PASSING and position.can_resume:
            raise _TryAgain(_describe_response(response))
        if response.status_code != 200:
            raise RequestFailed(_describe_response(response))
        try:
            for frame in frames(response.iter_bytes()):
                position.read(frame)
                yield frame
        except NotParley as odd:
            raise RequestFailed(f"{self.url} does not answer like a Parley: {odd}. {ELSEWHERE}") from None

    def _cancel(self, id: str) -> None:
        """Ask the gateway to stop a reply. One that cannot be reached is left alone."""
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.Client(timeout=_CANCEL_TIMEOUT, transport=self.transport) as it,
        ):
            it.delete(f"{self._base}/v1/chat/{id}", headers=self._headers)

    def _client(self) -> httpx.Client:
        try:
            return httpx.Client(timeout=_TIMEOUT, transport=self.transport)
        except (OSError, ValueError, ImportError) as error:  # a proxy or a certificate file in the environment
            raise Unreachable(f"cannot connect to {self.url}: {error}") from error

    @property
    def _base(self) -> str:
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def _explain(self, error: Exception) -> RequestFailed:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol | httpx.InvalidURL):
            return Unreachable(f"cannot connect to {self.url}: {_describe_connect_error(error)}. {ELSEWHERE}")
        return RequestFailed(f"the connection broke: {str(error) or type(error).__name__}")


class _TryAgain(Exception):
    """The gateway cannot be asked to resume just now."""


class _Position(Struct):
    """How far a reply was read."""

    id: str | None = None
    seq: int | None = None
    ended: bool = False

    @property
    def can_resume(self) -> bool:
        return self.id is not None and self.seq is not None

    def read(self, frame: Frame) -> None:
        id, seq = frame.get("response_id"), frame.get("seq")
        if frame.get("type") == "response.started" and isinstance(id, str):
            self.id = id
        self.seq = seq if isinstance(seq, int) else None
        self.ended = frame.get("type") in _ENDS


def describe_error(error: Any) -> str:
    """Format Parley's error object as `code: message (param)`."""
    if not isinstance(error, dict):
        return ""
    frame: Frame = error
    parts = [str(frame[key]) for key in ("code", "message") if frame.get(key)]
    param = f" ({frame['param']})" if frame.get("param") else ""
    return ": ".join(parts) + param if parts else ""


def _describe_connect_error(error: Exception) -> str:
    """Return the system's message without its error number."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".") or type(error).__name__


def _describe_response(response: httpx.Response) -> str:
    body = response.read().decode("utf-8", "replace")
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    message = describe_error(value.get("error")) if isinstance(value, dict) else ""
    text = f"HTTP {response.status_code} {response.reason_phrase} {body[:_MAX_ERROR_CHARACTERS]}".rstrip()
    return message or f"{text}. {ELSEWHERE}"
