"""The metrics of one process: what is counted of requests, and what is read when the metrics are.

Label values never come from callers: an unknown model is `other`, and upstreams and keys have the names that the
configuration gives them. Of the callers with a JWT, the first `MAX_JWT_CALLERS` have labels of their own.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app import __version__
from app.chat.server_tools import ToolCallSummary
from app.chat.token_usage import CallUsage, TokenUsage
from app.errors import find_responsible
from app.observe.request_record import ISSUER_SEPARATOR, RequestRecord

SAMPLE_SECONDS = 0.5

disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations


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
"""The label of every model whose name is not configured, and of tools beyond `MAX_TOOL_LABELS`."""
MAX_TOOL_LABELS = 200
"""Of one server. Its tools have the names that it gives them, and it may rename them again and again."""

MAX_JWT_CALLERS = 200
OTHER_CALLERS = "(others)"
"""The label of the other callers with JWTs of one issuer, behind the issuer's name."""

DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
FIRST_TOKEN_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
OUTPUT_TOKEN_BOUNDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
OVERHEAD_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
TOOL_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
MAX_KINDS = 50
"""So many kinds of masked values are labels."""
ROUND_BOUNDS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 50, 100)
LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

FROM_OTHER_CALLS = frozenset(("hit", "shared"))
"""The values of `x-parley-cache` for replies that cost the model nothing more."""
TOKEN_KINDS = ("input", "output", "cached_input", "reasoning")
"""The fields of `TokenUsage` that are counted."""

LabelValues: TypeAlias = tuple[str, ...]
ReadGauge: TypeAlias = Callable[[], Iterable[tuple[LabelValues, float]]]
_Labelled = TypeVar("_Labelled", Counter, Histogram)


class _Children(dict[LabelValues, _Labelled]):
    """The children of a metric by their label values: `labels` of prometheus-client costs as much as to count."""

    def __init__(self, metric: _Labelled) -> None:
        self._metric: _Labelled = metric

    def __missing__(self, values: LabelValues) -> _Labelled:
        child = self[values] = self._metric.labels(*values)
        return child


class _ReadGauge(Collector):
    """Figures that are read when the metrics are."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str], read: ReadGauge) -> None:
        self._name = name
        self._help_text = help_text
        self._labels = labels
        self._read = read

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._name, self._help_text, labels=self._labels)
        for values, value in self._read():
            family.add_metric(values, value)
        return [family]


class _Registry(CollectorRegistry):
    def add_counter(self, name: str, help_text: str, labels: Sequence[str]) -> _Children[Counter]:
        return _Children(Counter(name, help_text, labels, registry=self))

    def add_histogram(
        self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> _Children[Histogram]:
        return _Children(Histogram(name, help_text, labels, registry=self, buckets=bounds))


class _Requests:
    """Requests, how they ended and how long they took."""

    def __init__(self, registry: _Registry) -> None:
        self.ended = registry.add_counter(
            "parley_requests_total",
            "Requests for a reply, by outcome (completed, failed, disconnected) and by whose fault a failure was "
            "(caller, policy, upstream, gateway).",
            ("endpoint", "model", "key", "outcome", "fault"),
        )
        self.errors = registry.add_counter(
            "parley_request_errors_total",
            "Requests for a reply that failed, by error code.",
            ("endpoint", "model", "error", "fault"),
        )
        self.durations = registry.add_histogram(
            "parley_request_duration_seconds",
            "Time from a request's start to the end of its reply.",
            ("endpoint", "model"),
            DURATION_BOUNDS,
        )
        self.overhead = registry.add_histogram(
            "parley_overhead_seconds",
            "The gateway's own time: from the end of the request body to the first request to a model server, and "
            "from the server's first bytes to the reply's first bytes.",
            ("endpoint",),
            OVERHEAD_BOUNDS,
        )
        self.cache = registry.add_counter(
            "parley_cache_requests_total",
            "Requests for a reply, by the value of the header x-parley-cache.",
            ("model", "result"),
        )
        self.plain = registry.add_counter(
            "parley_plain_requests_total",
            "Requests for anything other than a model's reply, and requests that were refused before their endpoint.",
            ("route", "status", "error"),
        )
        self.bytes = registry.add_counter(
            "parley_request_bytes_total",
            "Bytes of request bodies of 16 KB and more, by whether they were remembered from earlier requests.",
            ("remembered",),
        )
        self.memory_failures = registry.add_counter(
            "parley_request_memory_failures_total",
            "Request bodies that were read as a whole because what was remembered for them could not be used.",
            ("error",),
        )


class _Replies:
    """What model servers replied: when, and how much."""

    def __init__(self, registry: _Registry) -> None:
        self.first_token = registry.add_histogram(
            "parley_time_to_first_token_seconds",
            "Time from a request's start to the first part of its reply, without replies from the cache.",
            ("endpoint", "model"),
            FIRST_TOKEN_BOUNDS,
        )
        self.output_token = registry.add_histogram(
            "parley_time_per_output_token_seconds",
            "Mean time between the tokens of a reply after its first one, without replies from the cache.",
            ("endpoint", "model"),
            OUTPUT_TOKEN_BOUNDS,
        )
        self.tokens = registry.add_counter(
            "parley_tokens_total",
            "Tokens of the replies of model servers, estimated where a server reports none. cached_input is a part of "
            "input, reasoning a part of output.",
            ("model", "key", "kind"),
        )
        self.cost = registry.add_counter(
            "parley_cost_total", "Cost of the replies, in the currency of the configured prices.", ("model", "key")
        )
        self.output_checks = registry.add_counter(
            "parley_output_checks_total",
            "Replies to requests for JSON, by what the check of their text has found.",
            ("model", "outcome"),
        )

    def count_tokens(self, model: str, key: str, tokens: TokenUsage, cost: float | None) -> None:
        for kind in TOKEN_KINDS:
            count: int = getattr(tokens, kind)
            if count:
                self.tokens[model, key, kind].inc(count)
        if cost:
            self.cost[model, key].inc(cost)


class _Attempts:
    """Requests to model servers."""

    def __init__(self, registry: _Registry) -> None:
        self.ended = registry.add_counter(
            "parley_upstream_attempts_total",
            "Requests to model servers; the outcome is ok, an error code, or cancelled, and the cause is more precise.",
            ("upstream", "outcome", "cause"),
        )
        self.retries = registry.add_counter(
            "parley_upstream_retries_total",
            "Requests to model servers after the first one for the same reply.",
            ("model",),
        )
        self.prompt_tokens = registry.add_counter(
            "parley_upstream_prompt_tokens_total",
            "Tokens of prompts, by whether the model server had them in its own cache.",
            ("upstream", "cached"),
        )

    def count_prompt(self, upstream: str, tokens: TokenUsage) -> None:
        if tokens.cached_input:
            self.prompt_tokens[upstream, "true"].inc(tokens.cached_input)
        if tokens.input > tokens.cached_input:
            self.prompt_tokens[upstream, "false"].inc(tokens.input - tokens.cached_input)


class _Guards:
    """What guards have said of requests and replies, and what they have masked."""

    def __init__(self, registry: _Registry) -> None:
        self.checks = registry.add_counter(
            "parley_guard_checks_total",
            "Checks by guards, by phase and verdict (pass, replace, reject, withhold, failed, remembered).",
            ("guard", "phase", "verdict"),
        )
        self.seconds = registry.add_histogram(
            "parley_guard_seconds", "Time of a check by a service.", ("guard", "phase"), TOOL_BOUNDS
        )
        self.masked = registry.add_counter(
            "parley_masked_values_total", "Values that were masked or redacted, by kind.", ("kind",)
        )
        self.placeholders = registry.add_counter(
            "parley_placeholders_total", "Placeholders in replies, by outcome (restored, unknown).", ("outcome",)
        )
        self._kinds: set[str] = set()
        """Those that are labels. A service may name any."""

    def count_masked(self, kind: str, count: int) -> None:
        if len(self._kinds) < MAX_KINDS:
            self._kinds.add(kind)
        self.masked[kind if kind in self._kinds else OTHER,].inc(count)


class _Tools:
    """Tools that the gateway runs, and their servers."""

    def __init__(self, registry: _Registry) -> None:
        self.calls = registry.add_counter(
            "parley_tool_calls_total",
            "Calls of tools that the gateway ran, by outcome (ok, error, not_run).",
            ("server", "tool", "outcome"),
        )
        self.seconds = registry.add_histogram(
            "parley_tool_call_seconds", "Time of a tool's call that was run.", ("server", "tool"), TOOL_BOUNDS
        )
        self.bytes = registry.add_counter(
            "parley_tool_result_bytes_total", "Bytes of the results of tools.", ("server",)
        )
        self.rounds = Histogram(
            "parley_reply_rounds",
            "Calls to the model in a reply with tools of the gateway.",
            registry=registry,
            buckets=ROUND_BOUNDS,
        )
        self.server_starts = registry.add_counter(
            "parley_mcp_server_starts_total", "Starts of MCP servers, and connections to them.", ("server",)
        )
        self._labels: dict[str, set[str]] = {}
        """The names of tools that are labels, by server."""

    def observe_call(self, call: ToolCallSummary) -> None:
        """Count a tool's call. One that was not offered has a name that a model made up: it is not a label."""
        server, tool = (call.server, self._label(call.server, call.tool)) if call.server else (OTHER, OTHER)
        self.calls[server, tool, call.outcome].inc()
        if call.outcome != "not_run":
            self.seconds[server, tool].observe(call.milliseconds / 1000)
            self.bytes[server,].inc(call.size)

    def _label(self, server: str, tool: str) -> str:
        known = self._labels.setdefault(server, set())
        if tool not in known:
            if len(known) >= MAX_TOOL_LABELS:
                return OTHER
            known.add(tool)
        return tool


class Metrics:
    """Filled by `observe_request`, which is a `RequestObserver`."""

    def __init__(self, models: Collection[str], upstreams: Collection[str]) -> None:
        """`models` and `upstreams` are the configured names."""
        self.set_names(models, upstreams)
        self._jwt_callers: set[str] = set()
        """Those that have labels of their own."""
        self._registry = _Registry()
        self._requests = _Requests(self._registry)
        self._replies = _Replies(self._registry)
        self._attempts = _Attempts(self._registry)
        self._tools = _Tools(self._registry)
        self._guards = _Guards(self._registry)
        self._lag = Histogram(
            "parley_event_loop_lag_seconds",
            "how late the event loop runs a timer, twice a second.",
            registry=self._registry,
            buckets=LAG_BOUNDS,
        )
        ProcessCollector(registry=self._registry)
        self.add_gauge("parley_build_info", "The version of Parley.", ("version",), lambda: [((__version__,), 1.0)])

    def set_names(self, models: Collection[str], upstreams: Collection[str]) -> None:
        """Set the configured names, after a reload of the configuration too."""
        self._models = frozenset(models)
        self._upstreams = frozenset(upstreams)

    def add_gauge(self, name: str, help_text: str, labels: Sequence[str], read: ReadGauge) -> None:
        """Add a metric whose figures `read` returns, as label values and number. It is called in the event loop."""
        self._registry.register(_ReadGauge(name, help_text, labels, read))

    def observe_request(self, record: RequestRecord) -> None:
        endpoint, model, caller = record.endpoint, self._label_model(record.model), self._label_caller(record.caller)
        requests, attempts = self._requests, self._attempts
        outcome, fault = "completed", ""
        if record.error is not None:
            outcome = "disconnected" if record.disconnected else "failed"
            fault = find_responsible(record.error, from_upstream=record.error_from_upstream)
            requests.errors[endpoint, model, record.error, fault].inc()
        requests.ended[endpoint, model, caller, outcome, fault].inc()
        requests.durations[endpoint, model].observe(record.duration)
        overhead = record.overhead
        if overhead is not None:
            requests.overhead[endpoint,].observe(overhead)
        if record.cache:
            requests.cache[model, record.cache].inc()
            if record.cache not in FROM_OTHER_CALLS:
                self._observe_call(record, endpoint, model)
        if record.output is not None:
            self._replies.output_checks[model, record.output].inc()
        for attempt in record.attempts:
            attempts.ended[self._label_upstream(attempt.upstream), attempt.outcome, attempt.cause or ""].inc()
        if len(record.attempts) > 1:
            attempts.retries[model,].inc(len(record.attempts) - 1)

    def _observe_call(self, record: RequestRecord, endpoint: str, model: str) -> None:
        """Count what a request has that called a model."""
        tokens, first, replies = record.tokens, record.first_token_seconds, self._replies
        if first is not None:
            replies.first_token[endpoint, model].observe(first)
        if tokens is None:
            return
        if first is not None and tokens.output > 1 and record.error is None:
            replies.output_token[endpoint, model].observe((record.duration - first) / (tokens.output - 1))
        if record.attempts:
            self._attempts.count_prompt(self._label_upstream(record.attempts[-1].upstream), tokens)
        answering = model if record.fallback_model is None else self._label_model(record.fallback_model)
        replies.count_tokens(answering, self._label_caller(record.caller), tokens, record.cost)

    def count_late_usage(self, caller: str, model: str, usage: CallUsage) -> None:
        """Count the usage of a call that ended after its request."""
        self._replies.count_tokens(self._label_model(model), self._label_caller(caller), usage.tokens, usage.cost)

    def _label_model(self, model: str) -> str:
        return model if model in self._models else OTHER

    def _label_upstream(self, upstream: str) -> str:
        return upstream if upstream in self._upstreams else OTHER

    def _label_caller(self, caller: str) -> str:
        issuer, separator, _ = caller.partition(ISSUER_SEPARATOR)
        if not separator or caller in self._jwt_callers:
            return caller
        if len(self._jwt_callers) >= MAX_JWT_CALLERS:
            return f"{issuer}{ISSUER_SEPARATOR}{OTHER_CALLERS}"
        self._jwt_callers.add(caller)
        return caller

    def observe_tool_call(self, call: ToolCallSummary) -> None:
        self._tools.observe_call(call)

    def observe_rounds(self, rounds: int) -> None:
        self._tools.rounds.observe(rounds)

    def observe_plain_request(self, route: str, status: int, error: str | None) -> None:
        """Count a request that has no RequestRecord. `route` is the pattern of its path."""
        self._requests.plain[route, str(status), error or ""].inc()

    def count_request_bytes(self, remembered: int, new: int) -> None:
        """Count the bytes of a request body. It may be called in any thread."""
        self._requests.bytes["true",].inc(remembered)
        self._requests.bytes["false",].inc(new)

    def count_memory_failure(self, error: str) -> None:
        """Count a request body that was read as a whole after this error. It may be called in any thread."""
        self._requests.memory_failures[error,].inc()

    def count_check(self, guard: str, phase: str, verdict: str) -> None:
        self._guards.checks[guard, phase, verdict].inc()

    def observe_check(self, guard: str, phase: str, seconds: float) -> None:
        self._guards.seconds[guard, phase].observe(seconds)

    def count_masked(self, kind: str, count: int) -> None:
        """Count masked values. It may be called in any thread."""
        self._guards.count_masked(kind, count)

    def count_placeholders(self, outcome: str, count: int) -> None:
        self._guards.placeholders[outcome,].inc(count)

    def count_tool_server_start(self, server: str) -> None:
        self._tools.server_starts[server,].inc()

    def observe_lag(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def collect(self) -> list[Metric]:
        """Return all metrics of this process. Call it in the event loop."""
        families = list(self._registry.collect())
        for family in families:
            for sample in family.samples:
                if "le" in sample.labels:  # `1`, as other clients of Prometheus write it, not `1.0`
                    sample.labels["le"] = sample.labels["le"].removesuffix(".0")
        return families
