"""The metrics of one process: what is counted of requests, and what is read when the metrics are.

Label values never come from callers: an unknown model is `other`, and upstreams and keys have the names that the
configuration gives them.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from app import __version__
from app.chat.token_usage import CallUsage, TokenUsage
from app.errors import find_responsible
from app.observe.metric_tables import Counter, CounterTable, GaugeTable, Histogram, HistogramTable, ReadGauge
from app.observe.request_record import RequestRecord

SAMPLE_SECONDS = 0.5


class LoopLagSampler:
    """Starts a timer again and again, and reports how late it ran. It has its own timer, because the ticker stops while
    there are no requests."""

    def __init__(self, observe: Callable[[float], None], interval_seconds: float = SAMPLE_SECONDS) -> None:
        self._observe = observe
        self._interval = interval_seconds
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due = time.perf_counter() + self._interval
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._sample)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self) -> None:
        self._observe(max(0.0, time.perf_counter() - self._due))
        self.start()


OTHER = "other"
"""The label of every model whose name is not configured."""

DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
FIRST_TOKEN_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
OUTPUT_TOKEN_BOUNDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
OVERHEAD_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

FROM_OTHER_CALLS = frozenset(("hit", "shared"))
"""The values of `x-parley-cache` for replies that cost the model nothing more."""


_MOST_WAITING = 256
"""As many requests of the same labels are counted together at the latest."""

_Figures: TypeAlias = tuple[float, float | None, float | None, float | None, int, int]
"""Of one request: its duration, overhead, time to the first token and between tokens, and its tokens, input and output.
None: it has no such figure."""


class _RequestRows:
    """The rows that count the requests with the same labels."""

    __slots__ = (
        "counters",
        "durations",
        "first_token",
        "input_tokens",
        "output_token",
        "output_tokens",
        "overhead",
        "waiting",
    )

    def __init__(
        self,
        counters: tuple[Counter, ...],
        durations: Histogram,
        overhead: Histogram,
        first_token: Histogram,
        output_token: Histogram,
        input_tokens: Counter,
        output_tokens: Counter,
    ) -> None:
        self.counters = counters
        """Each counts every request."""
        self.durations = durations
        self.overhead = overhead
        self.first_token = first_token
        self.output_token = output_token
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.waiting: list[_Figures] = []
        """The figures of requests that are not counted yet: to count many at once costs less."""

    def count_waiting(self) -> None:
        """Count the requests that wait."""
        if not self.waiting:
            return
        durations, overheads, first_tokens, output_tokens, inputs, outputs = zip(*self.waiting, strict=True)
        for counter in self.counters:
            counter.total += len(self.waiting)
        self.waiting.clear()
        self.durations.observe_all(durations)
        for row, figures in (
            (self.overhead, overheads),
            (self.first_token, first_tokens),
            (self.output_token, output_tokens),
        ):
            row.observe_all(figure for figure in figures if figure is not None)
        self.input_tokens.total += sum(inputs)
        self.output_tokens.total += sum(outputs)


class Metrics:
    """Filled by `observe_request`, which is a `RequestObserver`."""

    def __init__(self, models: Collection[str], upstreams: Collection[str]) -> None:
        """`models` and `upstreams` are the configured names."""
        self._rows: dict[tuple[str | bool | None, ...], _RequestRows] = {}
        """Of requests with the same labels. To look up each row by itself costs several times as much."""
        self.set_names(models, upstreams)
        self.tables: list[CounterTable | HistogramTable | GaugeTable] = []
        self._requests = self._add_counter(
            "parley_requests_total",
            "Requests for a reply, by outcome (completed, failed, disconnected) and by whose fault a failure was "
            "(caller, policy, upstream, gateway).",
            ("endpoint", "model", "key", "outcome", "fault"),
        )
        self._errors = self._add_counter(
            "parley_request_errors_total",
            "Requests for a reply that failed, by error code.",
            ("endpoint", "model", "error", "fault"),
        )
        self._durations = self._add_histogram(
            "parley_request_duration_seconds",
            "Time from a request's start to the end of its reply.",
            ("endpoint", "model"),
            DURATION_BOUNDS,
        )
        self._first_token = self._add_histogram(
            "parley_time_to_first_token_seconds",
            "Time from a request's start to the first part of its reply, without replies from the cache.",
            ("endpoint", "model"),
            FIRST_TOKEN_BOUNDS,
        )
        self._output_token = self._add_histogram(
            "parley_time_per_output_token_seconds",
            "Mean time between the tokens of a reply after its first one, without replies from the cache.",
            ("endpoint", "model"),
            OUTPUT_TOKEN_BOUNDS,
        )
        self._overhead = self._add_histogram(
            "parley_overhead_seconds",
            "The gateway's own time: from the end of the request body to the first request to a model server, and "
            "from the server's first bytes to the reply's first bytes.",
            ("endpoint",),
            OVERHEAD_BOUNDS,
        )
        self._tokens = self._add_counter(
            "parley_tokens_total",
            "Tokens of the replies of model servers, estimated where a server reports none. cached_input is a part of "
            "input, reasoning a part of output.",
            ("model", "key", "kind"),
        )
        self._cost = self._add_counter(
            "parley_cost_total", "Cost of the replies, in the currency of the configured prices.", ("model", "key")
        )
        self._cache = self._add_counter(
            "parley_cache_requests_total",
            "Requests for a reply, by the value of the header x-parley-cache.",
            ("model", "result"),
        )
        self._attempts = self._add_counter(
            "parley_upstream_attempts_total",
            "Requests to model servers; the outcome is ok, an error code, or cancelled, and the cause is more precise.",
            ("upstream", "outcome", "cause"),
        )
        self._retries = self._add_counter(
            "parley_upstream_retries_total",
            "Requests to model servers after the first one for the same reply.",
            ("model",),
        )
        self._plain = self._add_counter(
            "parley_plain_requests_total",
            "Requests for anything other than a model's reply, and requests that were refused before their endpoint.",
            ("route", "status", "error"),
        )
        self._lag = self._add_histogram(
            "parley_event_loop_lag_seconds", "how late the event loop runs a timer, twice a second.", (), LAG_BOUNDS
        )
        self._process = ProcessCollector(registry=None)
        self.add_gauge("parley_build_info", "The version of Parley.", ("version",), lambda: [((__version__,), 1.0)])

    def _add_counter(self, name: str, help_text: str, labels: Sequence[str]) -> CounterTable:
        table = CounterTable(name, help_text, labels)
        self.tables.append(table)
        return table

    def _add_histogram(
        self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> HistogramTable:
        table = HistogramTable(name, help_text, labels, bounds)
        self.tables.append(table)
        return table

    def set_names(self, models: Collection[str], upstreams: Collection[str]) -> None:
        """Set the configured names, after a reload of the configuration too."""
        self._count_waiting()
        self._models = frozenset(models)
        self._upstreams = frozenset(upstreams)
        self._rows.clear()
        self._attempt_rows: dict[tuple[str, str, str | None], Counter] = {}
        """Of attempts with the same upstream, outcome and cause."""

    def add_gauge(self, name: str, help_text: str, labels: Sequence[str], read: ReadGauge) -> None:
        """Add a metric whose figures `read` returns, as label values and number. It is called in the event loop."""
        self.tables.append(GaugeTable(name, help_text, labels, read))

    def observe_request(self, record: RequestRecord) -> None:
        model = record.model if record.model in self._models else OTHER
        answering = model if record.fallback_model is None else self._label_model(record.fallback_model)
        key = (
            record.endpoint,
            model,
            answering,
            record.caller,
            record.cache,
            record.error,
            record.error_from_upstream,
            record.disconnected,
        )
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = self._find_rows(*key)
        first: float | None = None
        output_token: float | None = None
        input_tokens = output_tokens = 0
        if record.cache and record.cache not in FROM_OTHER_CALLS:
            tokens = record.tokens
            if record.first_token_at is not None:
                first = record.first_token_at - record.started_at
            if tokens is not None:
                input_tokens, output_tokens = tokens.input, tokens.output
                if first is not None and output_tokens > 1 and record.error is None:
                    output_token = (record.duration - first) / (output_tokens - 1)
                if tokens.cached_input or tokens.reasoning or record.cost:
                    self._count_rare_tokens(answering, record.caller, tokens, record.cost)
        rows.waiting.append((record.duration, record.overhead, first, output_token, input_tokens, output_tokens))
        if len(rows.waiting) >= _MOST_WAITING:
            rows.count_waiting()
        attempts = record.attempts
        for attempt in attempts:
            attempt_key = (attempt.upstream, attempt.outcome, attempt.cause)
            counter = self._attempt_rows.get(attempt_key)
            if counter is None:
                counter = self._attempt_rows[attempt_key] = self._find_attempt_row(*attempt_key)
            counter.total += 1
        if len(attempts) > 1:
            self._retries.add((model,), len(attempts) - 1)

    def _find_rows(
        self,
        endpoint: str,
        model: str,
        answering: str,
        caller: str,
        cache: str,
        error: str | None,
        error_from_upstream: bool,
        disconnected: bool,
    ) -> "_RequestRows":
        outcome, fault, counters = "completed", "", []
        if error is not None:
            outcome = "disconnected" if disconnected else "failed"
            fault = find_responsible(error, from_upstream=error_from_upstream)
            counters.append(self._errors.row((endpoint, model, error, fault)))
        counters.append(self._requests.row((endpoint, model, caller, outcome, fault)))
        if cache:
            counters.append(self._cache.row((model, cache)))
        return _RequestRows(
            tuple(counters),
            self._durations.row((endpoint, model)),
            self._overhead.row((endpoint,)),
            self._first_token.row((endpoint, model)),
            self._output_token.row((endpoint, model)),
            self._tokens.row((answering, caller, "input")),
            self._tokens.row((answering, caller, "output")),
        )

    def _find_attempt_row(self, upstream: str, outcome: str, cause: str | None) -> Counter:
        return self._attempts.row((upstream if upstream in self._upstreams else OTHER, outcome, cause or ""))

    def _label_model(self, model: str) -> str:
        return model if model in self._models else OTHER

    def count_late_usage(self, caller: str, model: str, usage: CallUsage) -> None:
        """Count the usage of a call that ended after its request."""
        self._count_tokens(self._label_model(model), caller, usage.tokens, usage.cost)

    def _count_tokens(self, model: str, key: str, tokens: TokenUsage, cost: float | None) -> None:
        self._tokens.add((model, key, "input"), tokens.input)
        self._tokens.add((model, key, "output"), tokens.output)
        self._count_rare_tokens(model, key, tokens, cost)

    def _count_rare_tokens(self, model: str, key: str, tokens: TokenUsage, cost: float | None) -> None:
        """Count what most replies have none of."""
        if tokens.cached_input:
            self._tokens.add((model, key, "cached_input"), tokens.cached_input)
        if tokens.reasoning:
            self._tokens.add((model, key, "reasoning"), tokens.reasoning)
        if cost:
            self._cost.add((model, key), cost)

    def _count_waiting(self) -> None:
        for rows in self._rows.values():
            rows.count_waiting()

    def observe_plain_request(self, route: str, status: int, error: str | None) -> None:
        """Count a request that has no RequestRecord. `route` is the pattern of its path."""
        self._plain.add((route, str(status), error or ""))

    def observe_lag(self, seconds: float) -> None:
        self._lag.observe((), seconds)

    def collect(self) -> list[Metric]:
        """Return all metrics of this process. Call it in the event loop."""
        self._count_waiting()
        return [*(table.collect() for table in self.tables), *self._process.collect()]
