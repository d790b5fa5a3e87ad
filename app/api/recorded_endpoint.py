"""What is common to the endpoints whose requests are recorded: the log, metrics, traces, limits and usage."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.api.asgi import ClientDisconnected, Receive, Scope, send_error
from app.api.context import AppContext
from app.api.request_in_progress import RequestInProgress
from app.api.response_writer import Send
from app.chat.stream import Attempt
from app.errors import Internal, ParleyError, UpstreamFailed
from app.formats.base import WriteError, choose_status
from app.formats.body import RejectedRequest
from app.upstream.causes import describe_fault

if TYPE_CHECKING:
    from app.observe.request_log.capture import RequestCapture


class RecordedEndpoint(ABC):
    """A plain ASGI callable whose requests are recorded: for the log, metrics, traces, limits and usage."""

    _records_bodies = True
    """Whether the request log keeps more than figures."""

    def __init__(self, context: AppContext, name: str, write_error: WriteError | None = None) -> None:
        """`name` is the endpoint's name in the logs. `write_error` writes errors that occur before the request's own
        format is known; None: that of the path."""
        self._context = context
        self._name = name
        self._write_error = write_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._context
        request = RequestInProgress(context, scope, receive, send, self._name)
        record = request.record
        if context.request_log is not None:
            request.begin_capture(context.request_log, bodies=self._records_bodies)
        scope["state"]["recorded"] = True
        try:
            try:
                rejected = await self._serve(request)
            except ParleyError as error:
                rejected = RejectedRequest(error, None)
            if rejected is not None:
                write_error = rejected.write_error or self._write_error
                if write_error is None:
                    write_error = context.live.rules.find_error_writer(scope)
                status, failure = choose_status(write_error, rejected.error), self._find_failure((), rejected.error)
                record.record_rejection(rejected.error, status, failure)
                if record.capture is not None:
                    send = _record_sent(send, record.capture)
                await send_error(send, rejected.error, request.id, write_error)
        except ClientDisconnected:
            record.record_disconnect()
        except Exception:
            record.record_rejection(Internal("the gateway failed"), Internal.status, None)
            raise
        finally:
            if not request.in_background:
                context.finish_request(record)

    @abstractmethod
    async def _serve(self, request: RequestInProgress) -> RejectedRequest | None:
        """Send the reply, or return the error that rejects the request. Raises ParleyError."""

    def _find_failure(self, attempts: Sequence[Attempt], error: ParleyError | None) -> Attempt | None:
        """Return the failure of a model server that an operator should know of, even if another one answered in the
        end."""
        fault = error.fault if isinstance(error, UpstreamFailed) and error.is_server_fault else None
        failed = [attempt for attempt in attempts if attempt.cause]
        if fault is not None and fault.upstream is not None:
            address = self._context.registry.addresses().get(fault.upstream, "")
            return Attempt(fault.upstream, address, 0.0, fault.cause, describe_fault(fault))
        return failed[-1] if failed and (error is None or fault is not None) else None


def _record_sent(send: Send, capture: "RequestCapture") -> Send:
    from app.api.recorded_response import record_sent  # most gateways have no request log

    return record_sent(send, capture)
