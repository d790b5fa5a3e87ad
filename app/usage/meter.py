"""`CallMeter`: the usage and cost of one call to a model, reported once, when its reply ends.

A server that reports no usage, and a reply that is cut off, get an estimate: a token for four bytes of the request
without its media, and a token for each event of a stream or for four bytes of a whole reply. Four bytes of UTF-8 fit
English and Chinese; nearly all servers send each token of a stream in a chunk of its own.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.events import Event, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import AttemptLog
from app.chat.token_usage import CallUsage, TokenUsage, read_token_usage
from app.usage.pricing import Price, read_cost, with_cost

_BYTES_PER_TOKEN = 4
_MEDIA_MARK = b";base64,"


class CallMeter:
    __slots__ = ("_attempts", "_fallback_model", "_price", "_prompt_bytes")

    def __init__(
        self, attempts: AttemptLog, price: Price | None, body: bytes, fallback_model: str | None = None
    ) -> None:
        """`price` is that of the called model, which is `fallback_model` if it is not the one that was requested.
        `body` is the request to the model server; it is not kept."""
        self._attempts = attempts
        self._fallback_model = fallback_model
        self._price = price
        self._prompt_bytes = count_text_bytes(body)

    def end(self, events: list[Event], count: int) -> list[Event]:
        """Report the usage of a reply that ended with these events, and return them with the cost. The reply had
        `count` events."""
        last = events[-1] if events else None
        if type(last) is not Finish:
            self.stop(count)
            return events
        usage = last.usage
        tokens = read_token_usage(usage)
        if usage is None or tokens is None:
            self._report_estimate(max(count, _count_bytes(events) // _BYTES_PER_TOKEN), read_cost(usage))
            return events
        if self._price is None:
            self._attempts.report_usage(CallUsage(tokens, read_cost(usage), False, self._fallback_model))
            return events
        cost = self._price.compute_cost(tokens)
        self._attempts.report_usage(CallUsage(tokens, cost, False, self._fallback_model))
        return [*events[:-1], replace(last, usage=with_cost(usage, cost))]

    def stop(self, count: int) -> None:
        """Report the usage of a reply that failed, or was closed, after `count` events. Without any event nothing is
        reported: the model had not begun."""
        if count:
            self._report_estimate(count, None)

    def _report_estimate(self, output: int, cost: float | None) -> None:
        tokens = TokenUsage(input=self._prompt_bytes // _BYTES_PER_TOKEN, output=output)
        if cost is None and self._price is not None:
            cost = self._price.compute_cost(tokens)
        self._attempts.report_usage(CallUsage(tokens, cost, True, self._fallback_model))


def count_text_bytes(body: bytes) -> int:
    """Return the size of a JSON body without the base64 data in it."""
    size, start = len(body), 0
    while (start := body.find(_MEDIA_MARK, start)) >= 0:
        end = body.find(b'"', start)
        end = len(body) if end < 0 else end
        size -= end - start
        start = end
    return size


def _count_bytes(events: Sequence[Any]) -> int:
    total = 0
    for event in events:
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            total += len(event.text.encode("utf-8", "surrogatepass"))
        elif type(event) is ToolCallDelta:
            total += len(event.name) + len(event.arguments.encode("utf-8", "surrogatepass"))
    return total
