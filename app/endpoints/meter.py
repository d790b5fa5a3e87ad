"""`AnswerMeter`: the usage and cost of one request that passes through, reported once, when its answer ends."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import AnswerPart, Event, Failed, Finish
from app.chat.stream import AttemptLog
from app.chat.token_usage import CallUsage, TokenUsage, read_token_usage
from app.endpoints.usage import count_tokens
from app.usage.meter import Price, read_cost, with_cost


class Estimate(Struct, frozen=True):
    """What is known of a request's usage before its answer."""

    prompt_tokens: int = 0
    characters: int = 0
    """Of a text that is spoken."""
    unknown: tuple[str, int] | None = None
    """A unit that is billed, with the number that counts if the server does not tell it."""
    generates: bool = False
    """The answer has generated tokens."""
    most_seconds: int = 0
    """How long an uploaded recording may be."""
    is_free: bool = False
    """Nothing is billed, and the server need not tell a usage."""

    @property
    def most_units(self) -> dict[str, int]:
        """What the request may be billed for beside tokens, at most."""
        units = {"characters": self.characters, **dict([self.unknown] if self.unknown else [])}
        if "seconds" in units:
            units["seconds"] = max(units["seconds"], self.most_seconds)
        return units


class AnswerMeter:
    def __init__(
        self, attempts: AttemptLog, price: Price | None, estimate: Estimate, fallback_model: str | None = None
    ) -> None:
        """`price` is that of the called model, which is `fallback_model` if it is not the one that was requested."""
        self._attempts = attempts
        self._price = price
        self._estimate = estimate
        self._fallback_model = fallback_model

    def end(self, events: list[Event], count: int, reported: dict[str, Any] | None = None) -> list[Event]:
        """Report the usage of an answer that ended with these events, and return them with the usage and its cost."""
        last = events[-1] if events else None
        if type(last) is Finish:
            return [
                *events[:-1],
                replace(last, usage=self._report(last.usage or reported, _estimate_reply(events, count))),
            ]
        if type(last) is Failed:
            self.stop(count, reported)
        return events

    def stop(self, count: int, reported: dict[str, Any] | None = None) -> None:
        """Report the usage of an answer that failed, or was closed, after `count` events, if there are any."""
        if count or reported is not None:
            self._report(reported, count)

    def _report(self, told: Mapping[str, Any] | None, reply: int) -> dict[str, Any]:
        estimate = self._estimate
        if estimate.is_free:
            told = count_tokens(0)
        usage = {} if told is None else dict(told)
        if "prompt_tokens" not in usage:
            counted = count_tokens(estimate.prompt_tokens, reply if estimate.generates else 0)
            usage = {**counted, **usage, "estimated": True}
        if estimate.characters:
            usage["characters"] = estimate.characters
        tokens = read_token_usage(usage) or TokenUsage()
        units = usage if estimate.unknown is None else {estimate.unknown[0]: estimate.unknown[1], **usage}
        cost = None if self._price is None or estimate.is_free else self._price.compute_cost(tokens, units)
        reported = read_cost(usage) if cost is None else cost
        self._attempts.report_usage(CallUsage(tokens, reported, "estimated" in usage, self._fallback_model))
        return usage if cost is None else with_cost(usage, cost)


def _estimate_reply(events: list[Event], count: int) -> int:
    """Return about how many tokens a completion has: one for each event of a stream, and one for four bytes of a whole
    answer."""
    whole = sum(len(event.data) for event in events if type(event) is AnswerPart) // _BYTES_PER_TOKEN
    return max(count, whole if count <= _WHOLE else 0)


_BYTES_PER_TOKEN = 4
_WHOLE = 2
"""So many events has an answer that came whole: itself, and its end."""
