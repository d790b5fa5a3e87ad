"""`CallMeter`: the usage and cost of one call to a model, reported once, when its reply ends.

Numbers that the server did not send are estimated: those of the prompt as for the limits, those of the reply as a token
for each event of a stream or for four bytes of a whole reply. Four bytes of UTF-8 fit English and Chinese; nearly all
servers send each token of a stream in a chunk of its own. A zero is such a number too, for a reply that has anything:
relays send it for what they do not know.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import Event, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import NOTHING
from app.chat.stream import AttemptLog
from app.chat.token_usage import MAX_COST, CallUsage, TokenUsage, read_count, read_token_usage

_TOKENS_PER_PRICE = 1_000_000
_SEARCHES_PER_PRICE = 1000
_DIGITS = 12
"""Costs are rounded to this many digits after the point: one token of the cheapest models costs about 1e-8."""


class Price(Struct, frozen=True):
    """Prices of a million tokens, all in one currency."""

    input: float
    output: float
    """Of generated tokens; of reasoning too, if that has no price of its own."""
    cached_input: float
    """Of tokens of the prompt that the server read from its own cache."""
    cache_write: float
    """Of tokens of the prompt that the server wrote to its own cache."""
    reasoning: float | None = None
    tiers: tuple[tuple[int, "Price"], ...] = ()
    """The prices of requests whose prompt has more tokens than a number, by rising numbers. They are those of the whole
    request, not only of the tokens above the number."""
    per_search: float = 0.0
    """Of a thousand searches, as servers of rankings count them."""
    per_minute: float = 0.0
    """Of audio."""
    per_image: float = 0.0
    """Of an image that the model makes."""
    per_character: float = 0.0
    """Of a million characters of a text that is spoken."""

    @property
    def is_free(self) -> bool:
        numbers = (self.input, self.output, self.cached_input, self.cache_write, self.reasoning or 0, self.unit)
        return not any(numbers) and all(price.is_free for _, price in self.tiers)

    @property
    def unit(self) -> float:
        """The cost of one search, one minute, one image and one character, which is reserved."""
        return (
            self.per_search / _SEARCHES_PER_PRICE
            + self.per_minute
            + self.per_image
            + self.per_character / _TOKENS_PER_PRICE
        )

    def find_tier(self, prompt_tokens: int) -> "Price":
        """Return the prices of a request whose prompt has this many tokens."""
        found = self
        for above, price in self.tiers:
            if prompt_tokens > above:
                found = price
        return found

    def compute_cost(self, tokens: TokenUsage, units: Mapping[str, Any] = NOTHING) -> float:
        """`units` may have `searches`, `seconds`, `images` and `characters`."""
        price = self if not self.tiers else self.find_tier(tokens.input)
        new = tokens.input - tokens.cached_input - tokens.cache_write
        total = new * price.input + tokens.cached_input * price.cached_input + tokens.cache_write * price.cache_write
        total += tokens.output * price.output
        if price.reasoning is not None:
            total += tokens.reasoning * (price.reasoning - price.output)
        return round(total / _TOKENS_PER_PRICE + self.compute_units(units), _DIGITS)

    def compute_units(self, units: Mapping[str, Any]) -> float:
        """Return the cost of what is no token."""
        if not units or not self.unit:
            return 0.0
        return float(
            units.get("searches", 0) * self.per_search / _SEARCHES_PER_PRICE
            + units.get("seconds", 0) / 60 * self.per_minute
            + units.get("images", 0) * self.per_image
            + units.get("characters", 0) * self.per_character / _TOKENS_PER_PRICE
        )


def find_highest(prices: Sequence[Price]) -> Price:
    """Return a price of which each number, in each tier, is the highest one of some prices. That of the output is also
    at least that of reasoning."""
    numbers = sorted({above for price in prices for above, _ in price.tiers})
    highest = _find_highest_numbers(prices)
    tiers = [(above, _find_highest_numbers([price.find_tier(above + 1) for price in prices])) for above in numbers]
    return replace(highest, tiers=tuple(tiers))


def _find_highest_numbers(prices: Sequence[Price]) -> Price:
    return Price(
        max(price.input for price in prices),
        max(max(price.output, price.reasoning or 0) for price in prices),
        max(price.cached_input for price in prices),
        max(price.cache_write for price in prices),
        per_search=max(price.per_search for price in prices),
        per_minute=max(price.per_minute for price in prices),
        per_image=max(price.per_image for price in prices),
        per_character=max(price.per_character for price in prices),
    )


def with_cost(usage: dict[str, Any], cost: float) -> dict[str, Any]:
    """Return a normalized usage with this cost. It takes precedence over the cost that the server reported, which then
    is `upstream_cost`."""
    reported = usage.get("cost")
    if reported is None:
        return {**usage, "cost": cost}
    return {**usage, "cost": cost, "upstream_cost": reported}


def read_cost(usage: Mapping[str, Any] | None) -> float | None:
    """Return the cost in a usage, at most MAX_COST; None if it is unknown."""
    cost = None if usage is None else usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= MAX_COST:
        return None
    return float(cost)


_BYTES_PER_TOKEN = 4
_MAX_EVENTS_PER_TOKEN = 2
"""A running number of the reply's tokens is out of date if the reply has more events for each of them. Relays of
Anthropic's API send the first one at the start of the reply, and no other before its end."""


class CallMeter:
    __slots__ = ("_attempts", "_fallback_model", "_price", "_prompt_tokens")

    def __init__(
        self, attempts: AttemptLog, price: Price | None, prompt_tokens: int, fallback_model: str | None = None
    ) -> None:
        """`price` is that of the called model, which is `fallback_model` if it is not the one that was requested.
        `prompt_tokens` is an estimate."""
        self._attempts = attempts
        self._fallback_model = fallback_model
        self._price = price
        self._prompt_tokens = prompt_tokens

    def end(self, events: list[Event], count: int, reported: dict[str, Any] | None = None) -> list[Event]:
        """Report the usage of a reply that ended with these events, and return them with the usage and its cost. The
        reply had `count` events; `reported` is the server's usage, where the last event has none."""
        last = events[-1] if events else None
        if type(last) is Finish:
            finish = self._finish(last, events, count, reported)
            return events if finish is last else [*events[:-1], finish]
        usage = self.stop(count, reported)
        if type(last) is not Failed or usage is None:
            return events
        return [*events[:-1], Failed(replace(last.fault, usage=usage))]

    def _finish(self, finish: Finish, events: list[Event], count: int, reported: dict[str, Any] | None) -> Finish:
        """Report the usage of a whole reply, and return its end with that usage."""
        usage = finish.usage
        if usage is None:
            if reported is None:
                estimated = self._complete({}, events, count)
                self._report(estimated, estimated=True)
                return replace(finish, estimated_usage=estimated)
            usage = _drop_outdated(reported, count)
        complete = self._report_known(usage, self._complete(usage, events, count))
        return finish if complete is finish.usage else replace(finish, usage=complete)

    def stop(self, count: int, reported: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Report the usage of a reply that failed, or was closed, after `count` events. Returns it with its cost if the
        server has reported any of it, else None. If nothing came, nothing is reported: the model had not begun."""
        if reported is None:
            if count:
                self._report(self._complete({}, (), count), estimated=True)
            return None
        return self._report_known(reported, self._complete(_drop_outdated(reported, count), (), count))

    def _complete(self, usage: dict[str, Any], events: Sequence[Event], count: int) -> dict[str, Any]:
        """Return the usage with estimates for the numbers that it does not have; itself if it has all."""
        prompt, completion = read_count(usage.get("prompt_tokens")), read_count(usage.get("completion_tokens"))
        if prompt and (completion or (completion == 0 and not count and not _count_bytes(events))):
            return usage
        completion = completion or max(count, _count_bytes(events) // _BYTES_PER_TOKEN)
        total = read_count(usage.get("total_tokens")) or 0
        prompt = prompt or (total - completion if total > completion else self._prompt_tokens)
        return {
            **usage,
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _report_known(self, reported: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
        """Report the usage that was made of what the server reported, and return it as the caller gets it."""
        estimated = usage is not reported
        cost = self._report(usage, estimated=estimated)
        if estimated:
            usage = {**usage, "estimated": True}
        return usage if cost is None else with_cost(usage, cost)

    def _report(self, usage: dict[str, Any], *, estimated: bool) -> float | None:
        """Report a usage that has all numbers. Returns its cost if the model has a price."""
        tokens = read_token_usage(usage)
        assert tokens is not None
        computed = None if self._price is None else self._compute_cost(usage, tokens)
        cost = read_cost(usage) if computed is None else computed
        self._attempts.report_usage(CallUsage(tokens, cost, estimated, self._fallback_model))
        return computed

    def _compute_cost(self, usage: dict[str, Any], tokens: TokenUsage) -> float:
        assert self._price is not None
        billed = [tokens] if "iterations" not in usage else _read_iterations(usage["iterations"]) or [tokens]
        return round(sum(map(self._price.compute_cost, billed)), _DIGITS)


def _read_iterations(value: Any) -> list[TokenUsage]:
    """Return the tokens of each call to the model that a server of the Messages API made for one reply; none if some of
    them cannot be read. All are billed, but the totals leave out those that compacted the conversation
    (platform.claude.com/docs/en/build-with-claude/compaction)."""
    found: list[TokenUsage] = []
    for one in value if isinstance(value, list) else ():
        counts = [read_count(one.get(name, 0)) for name in _ITERATION] if isinstance(one, dict) else [None]
        if None in counts:
            return []
        new, cached, written, output = [count or 0 for count in counts]
        found.append(TokenUsage(new + cached + written, cached, written, output))
    return found


_ITERATION = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def _drop_outdated(reported: dict[str, Any], count: int) -> dict[str, Any]:
    """Return a running usage without the number of the reply's tokens if that is out of date after `count` events."""
    completion = read_count(reported.get("completion_tokens"))
    if completion is None or completion * _MAX_EVENTS_PER_TOKEN >= count:
        return reported
    return {name: value for name, value in reported.items() if name not in ("completion_tokens", "total_tokens")}


def _count_bytes(events: Sequence[Any]) -> int:
    total = 0
    for event in events:
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            total += len(event.text.encode("utf-8", "surrogatepass"))
        elif type(event) is ToolCallDelta:
            total += len(event.name) + len(event.arguments.encode("utf-8", "surrogatepass"))
    return total
