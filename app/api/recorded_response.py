"""Give what a client is sent to the request log, too."""

from typing import Any

from app.api.response_writer import Headers, ResponseWriter, Send, Sender
from app.observe.request_log.capture import CapturedBody, RequestCapture


class RecordedWriter:
    """Does what the writer does."""

    def __init__(self, writer: ResponseWriter, reply: CapturedBody) -> None:
        self._writer = writer
        self._reply = reply

    @property
    def blocked(self) -> bool:
        return self._writer.blocked

    @property
    def blocked_since(self) -> float:
        return self._writer.blocked_since

    @property
    def notices_disconnect(self) -> bool:
        return self._writer.notices_disconnect

    def attach(self, sender: Sender) -> None:
        self._writer.attach(sender)

    def detach(self) -> None:
        self._writer.detach()

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        self._reply.record_head(status, headers)
        self._writer.start(status, headers, length)

    def write(self, data: bytes, *, last: bool) -> None:
        self._reply.record_data(data)
        if last:
            self._reply.record_end(None)
        self._writer.write(data, last=last)

    def abort(self) -> None:
        self._writer.abort()

    def cut(self) -> None:
        self._writer.cut()


def record_sent(send: Send, capture: RequestCapture) -> Send:
    """Return an ASGI `send` that records an error which is sent in place of a reply."""

    def record(message: dict[str, Any]) -> Any:
        if message["type"] == "http.response.start":
            capture.reply.record_head(message["status"], message["headers"])
        else:
            capture.reply.record_data(message.get("body", b""))
            capture.reply.record_end(None)
        return send(message)

    return record
