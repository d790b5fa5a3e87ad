"""One request for a reply or an answer, while it goes on."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.access import Caller
from app.api.asgi import Receive, Scope, read_body, take_body
from app.api.context import AppContext
from app.api.end_users import name_user
from app.api.response_writer import OfferedWriter, ResponseWriter, Send, SendQueue
from app.chat.stream import AttemptLog
from app.formats.gemini.paths import wants_events
from app.observe.request_record import RequestRecord
from app.usage.tags import TAGS_HEADER, read_tags

if TYPE_CHECKING:
    from app.guards.admission import RequestGuard
    from app.observe.request_log.log import RequestLog


class RequestInProgress:
    """One request, from its head to the end of its reply."""

    __slots__ = (
        "attempts",
        "caller",
        "guard",
        "id",
        "in_background",
        "is_large",
        "lease",
        "live",
        "named_model",
        "offered_writer",
        "receive",
        "record",
        "scope",
        "send",
        "tag_warnings",
        "writer",
    )

    def __init__(self, context: AppContext, scope: Scope, receive: Receive, send: Send, endpoint: str) -> None:
        """`endpoint` is its name in the logs."""
        state = scope["state"]
        self.scope = scope
        self.receive = receive
        self.send = send
        self.id: str = state["request_id"]
        self.caller: Caller = state["caller"]
        self.live = context.live
        """The configuration with which the request goes on, even after a reload."""
        self.offered_writer: OfferedWriter | None = state["writer"]
        self.writer: ResponseWriter = self.offered_writer or SendQueue(send)
        self.lease = context.budget.lease()
        """The memory of the request."""
        self.is_large = False
        """The body, or what is stored for it, is so large that it is parsed and prepared in another thread."""
        self.named_model = ""
        """The model that a reply names, if that is not the one which answers: the name that the client sent for a
        virtual model."""
        self.guard: RequestGuard | None = None
        """None if no guard looks at the request and its reply."""
        self.tag_warnings: tuple[str, ...] = ()
        self.in_background = False
        """The reply goes on without the client, and the request is reported at its end."""
        team = self.caller.team
        self.record = RequestRecord(
            self.id, endpoint, self.caller.name, "" if team is None else team.name, trace=context.begin_trace(scope)
        )
        if "transport" in state:
            self.record.transport = state["transport"]
        if self.caller.user:
            self.record.record_user(self.caller.user)
        self.attempts = AttemptLog(self.record.trace, self.caller.identity)

    def begin_capture(self, log: "RequestLog", *, bodies: bool) -> None:
        """Capture the request for the log; without `bodies`, only its figures."""
        scope, caller = self.scope, self.caller
        control = scope["state"]["headers"].get(b"cache-control", b"")
        bodies = bodies and b"no-store" not in control.lower()
        # Of a query nothing else is kept: it may have keys.
        path = f"{scope['path']}?alt=sse" if wants_events(scope["query_string"]) else scope["path"]
        capture = log.begin(caller.name, caller.identity, path, scope["headers"], bodies=bodies)
        if capture is not None:
            self.record.capture = self.attempts.recorder = capture
            self.writer = self.record_writes(self.writer)

    async def read_body(self) -> bytes | bytearray:
        """Return the whole body; the lease has its memory. Raises ParleyError and ClientDisconnected."""
        server = self.live.settings.server
        raw: bytes | bytearray | None = take_body(self.scope, self.offered_writer, server.max_body_bytes, self.lease)
        if raw is None:
            raw = await read_body(self.scope, self.receive, server.max_body_bytes, server.body_seconds, self.lease)
        self.record.received_at = time.perf_counter()
        return raw

    def record_writes(self, writer: ResponseWriter) -> ResponseWriter:
        """Return the writer, or one that also gives what is written to the request log."""
        capture = self.record.capture
        if capture is None:
            return writer
        from app.api.recorded_response import RecordedWriter

        return RecordedWriter(writer, capture.reply)

    def name_user(self, user: Any, metadata: Any) -> None:
        """Set the end user whom the body names, if the caller names its users there: by its field `user`, or its
        metadata."""
        rules = self.caller.users
        if rules is None:
            return
        self.caller = name_user(self.scope, user, metadata)
        self.attempts.caller = self.caller.identity
        self.record.record_user(self.caller.user or "")
        if rules.hash_name is not None and rules.source.place == "metadata":
            self.record.replace_metadata(rules.source.name, self.caller.user or "")

    def read_tags(self, metadata: Mapping[str, str] | None) -> tuple[str, ...]:
        """Record the tags of the request. Returns warnings about those that do not count."""
        header = self.scope["state"]["headers"].get(TAGS_HEADER)
        if header is None and not metadata:
            return ()
        tags, warnings = read_tags(header, metadata)
        if tags:
            self.record.record_tags(tags)
        self.tag_warnings = tuple(warnings)
        return self.tag_warnings
