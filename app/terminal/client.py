"""Send one question, or hold a conversation, and return an exit code."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import httpx
from msgspec import Struct

from app.terminal.frames import Frame, NotParley, frames
from app.terminal.screen import JsonScreen, PrettyScreen, Screen, replace_control_characters

COMPLETED, FAILED, UNREACHABLE, INTERRUPTED = 0, 1, 2, 130

_TIMEOUT = httpx.Timeout(60, connect=10)  # a gateway sends a heartbeat every 15 seconds
_MAX_ERROR_CHARACTERS = 300
_ELSEWHERE = "Is a gateway running there? For one at another address or port, use --url or PARLEY_URL"

Message = dict[str, object]


def chat(
    url: str,
    messages: list[Message],
    *,
    model: str | None,
    functions: list[dict[str, object]] | None,
    api_key: str | None,
    as_json: bool,
    out: TextIO,
    err: TextIO,
    color: bool,
    transport: httpx.BaseTransport | None = None,
) -> int:
    """Send one request and return the exit code: 0 completed, 1 failed, 2 cannot connect, 130 interrupted."""
    client = _ChatClient(url, model, functions, api_key, as_json, out, err, color, transport)
    return client.ask(messages)[0]


def repl(
    url: str,
    *,
    model: str | None,
    functions: list[dict[str, object]] | None,
    api_key: str | None,
    as_json: bool,
    out: TextIO,
    err: TextIO,
    color: bool,
    read: Callable[[str], str] = input,
    transport: httpx.BaseTransport | None = None,
) -> int:
    """Hold a conversation until the end of input. A question that failed does not become part of it."""
    client = _ChatClient(url, model, functions, api_key, as_json, out, err, color, transport)
    messages: list[Message] = []
    while True:
        try:
            question = read("> ").strip()
        except EOFError:
            return COMPLETED
        except KeyboardInterrupt:
            return INTERRUPTED
        if not question:
            continue
        sent: list[Message] = [*messages, {"role": "user", "content": question}]
        code, received = client.ask(sent)
        messages = sent + received if code == COMPLETED else messages


class _ReplyFailed(Exception):
    """The reply failed; the message is shown to the user."""


class _ChatClient(Struct, frozen=True):
    """The gateway to send to, the options of each request, and the streams to print to."""

    url: str
    model: str | None
    functions: list[dict[str, object]] | None
    api_key: str | None
    as_json: bool
    out: TextIO
    err: TextIO
    color: bool
    transport: httpx.BaseTransport | None

    def ask(self, messages: list[Message]) -> tuple[int, list[Message]]:
        """Send the messages and show the reply. Return the exit code and the messages that arrived complete."""
        screen: Screen = JsonScreen(self.out) if self.as_json else PrettyScreen(self.out, color=self.color)
        received: list[Message] = []
        try:
            with self._reply(messages) as response:
                self._follow(response, screen, received)
        except KeyboardInterrupt:
            return self._print_error(screen, "interrupted", INTERRUPTED), received
        except _ReplyFailed as failed:
            return self._print_error(screen, str(failed), FAILED), received
        except NotParley as odd:
            text = f"{self.url} does not answer like a Parley: {odd}. {_ELSEWHERE}"
            return self._print_error(screen, text, FAILED), received
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as exc:
            text = f"cannot connect to {self.url}: {_describe_connect_error(exc)}. {_ELSEWHERE}"
            return self._print_error(screen, text, UNREACHABLE), received
        except httpx.HTTPError as exc:
            return self._print_error(
                screen, f"the connection broke: {str(exc) or type(exc).__name__}", FAILED
            ), received
        return COMPLETED, received

    @contextlib.contextmanager
    def _reply(self, messages: list[Message]) -> Iterator[httpx.Response]:
        body: dict[str, object] = {"messages": messages, "stream": True}
        body |= {"model": self.model} if self.model is not None else {}
        body |= {"functions": self.functions} if self.functions is not None else {}
        headers = {"accept": "text/event-stream", "content-type": "application/json"}
        headers |= {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        with (
            httpx.Client(timeout=_TIMEOUT, transport=self.transport) as client,
            # json.dumps escapes to ASCII: typed text may hold half surrogate pairs, which UTF-8 cannot encode.
            client.stream("POST", _endpoint(self.url), content=json.dumps(body), headers=headers) as response,
        ):
            yield response

    def _follow(self, response: httpx.Response, screen: Screen, received: list[Message]) -> None:
        if response.status_code != 200:
            raise _ReplyFailed(_describe_response(response))
        for frame in frames(response.iter_bytes()):
            screen.show(frame)
            match frame.get("type"):
                case "message.completed" if isinstance(frame.get("message"), dict):
                    received.append(frame["message"])
                case "response.completed":
                    return
                case "response.failed":
                    raise _ReplyFailed(_describe_error(frame.get("error")) or "the reply failed")
        raise _ReplyFailed("the reply ended before it was complete")

    def _print_error(self, screen: Screen, text: str, code: int) -> int:
        screen.end_line()
        self.err.write(f"parley: {' '.join(replace_control_characters(text).split())}\n")
        self.err.flush()
        return code


def _describe_connect_error(error: Exception) -> str:
    """Return the system's message without its error number."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".") or type(error).__name__


def _endpoint(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1") + "/v1/chat"


def _describe_response(response: httpx.Response) -> str:
    body = response.read().decode("utf-8", "replace")
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    message = _describe_error(value.get("error")) if isinstance(value, dict) else ""
    text = f"HTTP {response.status_code} {response.reason_phrase} {body[:_MAX_ERROR_CHARACTERS]}".rstrip()
    return message or f"{text}. {_ELSEWHERE}"


def _describe_error(error: Any) -> str:
    """Format Parley's error object as `code: message (param)`."""
    if not isinstance(error, dict):
        return ""
    frame: Frame = error
    parts = [str(frame[key]) for key in ("code", "message") if frame.get(key)]
    param = f" ({frame['param']})" if frame.get("param") else ""
    return ": ".join(parts) + param if parts else ""
