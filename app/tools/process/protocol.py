"""The protocol between the gateway and its tool process.

A frame is a four-byte length and a msgpack value. The gateway numbers its requests and its connections; the tool
process answers each request once, in any order, unless it was cancelled. It ends when the pipe is closed.
"""

import struct
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from app.chat.server_tools import ToolAnswer

HEAD = struct.Struct(">I")

Line: TypeAlias = Literal["debug", "info", "warning"]
State: TypeAlias = Literal["idle", "starting", "up", "down"]
"""`idle`: no request has needed the server yet."""

STDERR_MARK = "; its last line of stderr: "
"""Stands in an error before what the server itself wrote, which is for the operator and not for callers."""


class ServerSpec(Struct, frozen=True):
    """How to reach one server."""

    name: str
    startup_seconds: float
    """For the start, the handshake and the list of tools."""
    max_message_bytes: int
    """A longer message of the server ends the connection."""
    max_tools: int
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """All variables of the child."""
    cwd: str | None = None
    url: str | None = None
    """Of streamable HTTP, if there is no command."""
    headers: dict[str, str] = {}


class OpenConnection(Struct, frozen=True, tag="open"):
    """Make a connection known. It starts with the first request that needs it."""

    connection: int
    spec: ServerSpec


class CloseConnection(Struct, frozen=True, tag="close"):
    connection: int


class ListTools(Struct, frozen=True, tag="list"):
    request: int
    connection: int


class CallTool(Struct, frozen=True, tag="call"):
    request: int
    connection: int
    tool: str
    arguments: bytes
    """A JSON object."""
    seconds: float
    max_text_bytes: int
    max_media_bytes: int
    traceparent: str | None = None
    reads_entries: bool = False
    """The answer has the pages that the result names."""


class CancelCall(Struct, frozen=True, tag="cancel"):
    """Cancel a call. It is not answered."""

    request: int


class ListedTool(Struct, frozen=True):
    name: str
    description: str | None
    schema: bytes
    """JSON, as the server sent it."""
    annotations: bytes | None
    """JSON, as the server sent it."""
    read_only: bool


class ToolList(Struct, frozen=True, tag="tools"):
    request: int
    tools: list[ListedTool]


class ListFailed(Struct, frozen=True, tag="unlisted"):
    request: int
    message: str


class CallEnded(Struct, frozen=True, tag="ended"):
    request: int
    answer: ToolAnswer


class ToolsChanged(Struct, frozen=True, tag="changed"):
    """A list that was read before may be wrong: the server says so, or was started again."""

    connection: int


class StateChanged(Struct, frozen=True, tag="state"):
    connection: int
    state: State
    pid: int | None = None
    """The child, which leads a process group."""
    error: str | None = None
    """Why it is down."""


class LogLine(Struct, frozen=True, tag="log"):
    connection: int
    level: Line
    text: str


ToProcess: TypeAlias = OpenConnection | CloseConnection | ListTools | CallTool | CancelCall
FromProcess: TypeAlias = ToolList | ListFailed | CallEnded | ToolsChanged | StateChanged | LogLine

_encoder = msgspec.msgpack.Encoder()
decode_to_process = msgspec.msgpack.Decoder(ToProcess).decode
decode_from_process = msgspec.msgpack.Decoder(FromProcess).decode


def encode_frame(message: ToProcess | FromProcess) -> bytes:
    payload = _encoder.encode(message)
    return HEAD.pack(len(payload)) + payload
