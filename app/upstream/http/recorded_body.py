"""`RecordedBody`: a response whose bytes are also given to a recorder, as they come."""

from collections.abc import Callable

from app.chat.stream import ExchangeRecorder
from app.upstream.http.transport import ResponseBody


class RecordedBody:
    """Does what the body does."""

    def __init__(self, body: ResponseBody, recorder: ExchangeRecorder) -> None:
        self._body = body
        self._recorder = recorder
        self.status = body.status
        self.headers = body.headers
        self.sent_at = body.sent_at
        self.encoding = body.encoding
        recorder.record_head(body.status, body.headers)

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        recorder = self._recorder

        def record_data(data: bytes) -> None:
            recorder.record_data(data)
            on_data(data)

        def record_end(error: Exception | None) -> None:
            recorder.record_end(error)
            on_end(error)

        self._body.push(record_data, record_end)

    def pause(self) -> None:
        self._body.pause()

    def resume(self) -> None:
        self._body.resume()

    def release(self) -> None:
        self._recorder.record_end(None)
        self._body.release()

    def abort(self) -> None:
        self._body.abort()
