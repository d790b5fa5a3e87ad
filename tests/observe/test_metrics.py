"""What `/metrics` counts of requests, and which labels it has."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from app.access import hash_key
from app.chat.server_tools import ToolCallSummary
from app.chat.token_usage import CallUsage, TokenUsage
from app.observe.metrics import DURATION_BOUNDS, MAX_JWT_CALLERS, MAX_TOOL_LABELS, Metrics
from app.observe.request_record import RequestRecord
from app.state import StateError
from app.usage.totals import UsageQuery
from prometheus_client.parser import text_string_to_metric_families

from tests.in_process_gateway import HELLO, SERVER, STOP, ModelServer, Running, streamed
from tests.observe.known_metrics import list_metrics

ROOT = Path(__file__).parents[2]
BODY = {"messages": [{"role": "user", "content": "Hi"}]}
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":7,'
    b'"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":4}}}\n\n'
)


class Samples:
    """The samples of a text in Prometheus' format."""

    def __init__(self, text: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of all samples with this name and these labels."""
        return sum(
            sample.value for sample in self._samples if sample.name == name and labels.items() <= sample.labels.items()
        )

    def values(self, label: str) -> set[str]:
        return {sample.labels[label] for sample in self._samples if label in sample.labels}


def scraped(gateway: Running) -> Samples:
    answer = gateway.get("/metrics")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return Samples(answer.body.decode())


def test_each_request_is_counted_with_its_outcome_and_its_tokens() -> None:
    replies = [streamed(HELLO, STOP.replace(b"data: [DONE]", USAGE + b"data: [DONE]")), streamed(HELLO)]
    with Running({**SERVER, "cache": {"url": "memory:"}}, ModelServer(lambda _: replies.pop(0))) as gateway:
        gateway.post("/v1/chat", BODY)
        gateway.post("/v1/chat", BODY)
        first = scraped(gateway)
        gateway.post("/v1/chat/completions", {**BODY, "model": "m"})
        gateway.post("/v1/chat", {**BODY, "model": "x"})
        samples = scraped(gateway)
    requests = "parley_requests_total"
    assert samples.sum(requests, endpoint="chat", model="m", outcome="completed", fault="") == 2
    assert samples.sum(requests, endpoint="completions", model="m", outcome="failed", fault="upstream") == 1
    assert samples.sum(requests, endpoint="chat", model="other", outcome="failed", fault="caller") == 1
    assert samples.sum(requests) == 4
    assert samples.sum("parley_request_errors_total", error="unknown_model", fault="caller") == 1
    assert samples.sum("parley_request_errors_total", error="upstream_incomplete", fault="upstream") == 1
    assert samples.sum("parley_cache_requests_total", model="m", result="hit") == 1
    tokens = {kind: first.sum("parley_tokens_total", kind=kind) for kind in ("input", "output", "cached_input")}
    assert tokens == {"input": 30, "output": 7, "cached_input": 20}  # those of the hit are not counted again
    assert first.sum("parley_tokens_total", kind="reasoning") == 4
    assert samples.sum("parley_request_duration_seconds_count") == 4
    assert samples.sum("parley_time_to_first_token_seconds_count") == 2
    assert samples.sum("parley_time_per_output_token_seconds_count") == 1
    assert samples.sum("parley_overhead_seconds_count") == 2
    assert 0 < samples.sum("parley_overhead_seconds_sum") < samples.sum("parley_request_duration_seconds_sum")
    attempts = "parley_upstream_attempts_total"
    assert samples.sum(attempts, upstream="local", outcome="ok") == 1
    assert samples.sum(attempts, upstream="local", outcome="upstream_incomplete") == 1
    assert samples.sum("process_resident_memory_bytes") > 0


def test_requests_to_failing_servers_are_counted_with_their_causes() -> None:
    replies = [streamed(HELLO, STOP)]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "down.test":
            return httpx.Response(500)
        return replies.pop()

    settings = {
        "upstreams": {name: {"base_url": f"http://{name}.test/v1"} for name in ("down", "local")},
        "models": {"m": {"upstreams": ["down", {"name": "local", "priority": 2}]}},
    }
    with Running(settings, ModelServer(answer)) as gateway:
        assert gateway.post("/v1/chat", BODY).status == 200
        samples = scraped(gateway)
    assert (
        samples.sum("parley_upstream_attempts_total", upstream="down", outcome="server_error", cause="error_status")
        == 1
    )
    assert samples.sum("parley_upstream_attempts_total", upstream="local", outcome="ok") == 1
    assert samples.sum("parley_upstream_retries_total", model="m") == 1


def test_no_label_has_a_value_that_a_caller_chose() -> None:
    settings = {"upstreams": {"local": {"base_url": "http://model.test/v1"}}, "passthrough": "local"}
    with Running(settings, ModelServer()) as gateway:
        assert gateway.post("/v1/chat", {**BODY, "model": "chosen", "metadata": {"a": "chosen"}}).status == 200
        gateway.post("/v1/chosen", {})
        samples = scraped(gateway)
    assert samples.values("model") == {"other"}
    assert samples.values("endpoint") == {"chat"}


def test_only_the_first_callers_with_tokens_have_labels_of_their_own() -> None:
    metrics = Metrics(("m",), ("local",))
    for number in range(MAX_JWT_CALLERS + 5):
        metrics.observe_request(RequestRecord("r", "chat", f"kc:{number}"))
    metrics.observe_request(RequestRecord("r", "chat", "kc:0"))
    metrics.observe_request(RequestRecord("r", "chat", "a key"))
    metrics.count_late_usage("kc:new", "m", CallUsage(TokenUsage(7, 0)))
    counted = {
        sample.labels["key"]: sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name in ("parley_requests_total", "parley_tokens_total")
    }
    assert len(counted) == MAX_JWT_CALLERS + 2
    assert (counted["kc:0"], counted["kc:199"], counted["kc:(others)"], counted["a key"]) == (2, 1, 7, 1)


def test_a_server_that_renames_its_tools_again_and_again_has_a_bounded_number_of_labels() -> None:
    metrics = Metrics([], [])
    for name in [*(f"t{number}" for number in range(MAX_TOOL_LABELS + 50)), "t0"]:
        metrics.observe_tool_call(ToolCallSummary("c", "files", name, "ok", 1, 1))
    metrics.observe_tool_call(ToolCallSummary("c", "time", "now", "ok", 1, 1))
    [family] = [one for one in metrics.collect() if one.name == "parley_tool_calls"]
    counts = {(sample.labels["server"], sample.labels["tool"]): sample.value for sample in family.samples}
    names = [f"t{number}" for number in range(MAX_TOOL_LABELS)]
    assert counts.keys() == {*(("files", name) for name in names), ("files", "other"), ("time", "now")}
    assert (counts["files", "other"], counts["files", "t0"]) == (50, 2)


def test_plain_and_refused_requests_are_counted_by_their_routes() -> None:
    settings = {**SERVER, "keys": {"a": {"sha256": hash_key("key-a"), "admin": True}}}
    key = {"authorization": "Bearer key-a"}
    with Running(settings, ModelServer()) as gateway:
        gateway.post("/v1/chat", BODY)
        gateway.post("/v1/messages/count_tokens", {**BODY, "model": "m"}, key)
        gateway.get("/v1/models/m")
        gateway.get("/v1/models/m", key)
        gateway.get("/v1/chat/chat-1/events", key)
        gateway.get("/chosen", key)
        gateway.get("/healthz")
        text = gateway.get("/metrics", key).body.decode()
    name, samples = "parley_plain_requests_total", Samples(text)
    assert samples.sum(name, route="/v1/chat", status="401", error="invalid_api_key") == 1
    assert samples.sum(name, route="/v1/messages/count_tokens", status="200", error="") == 1
    assert samples.sum(name, route="/v1/models/{model:path}", status="401", error="invalid_api_key") == 1
    assert samples.sum(name, route="/v1/models/{model:path}", status="200", error="") == 1
    assert samples.sum(name, route="/v1/chat/{response_id}/events", status="404", error="not_found") == 1
    assert samples.sum(name, route="other", status="404") == 1
    assert samples.sum(name, route="/healthz", status="200") == 1
    assert samples.sum(name) == 7


def test_the_databases_are_shown_by_their_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broken = {"state": {"url": "memory:"}, "usage": {"url": f"sqlite:///{tmp_path}/file/usage.db"}}
    with Running({**SERVER, **broken}, ModelServer()) as gateway:
        assert gateway.context.usage_ledger is not None
        with pytest.raises(StateError):
            gateway.context.usage_ledger.read(UsageQuery("2026-01-01", "2026-01-02"))
        shown = gateway.get("/metrics").body.decode()
    assert 'parley_database_connected{use="state"} 1.0' in shown
    assert 'parley_database_connected{use="usage"} 0.0' in shown


def test_the_admin_key_is_required_if_one_is_configured() -> None:
    with Running({**SERVER, "server": {"admin_key": "secret"}}, ModelServer()) as gateway:
        assert gateway.get("/metrics").status == 403
        assert gateway.get("/metrics", {"authorization": "Bearer other"}).status == 403
        assert gateway.get("/metrics", {"authorization": "Bearer secret"}).status == 200


def test_without_metrics_there_is_no_such_path() -> None:
    with Running({**SERVER, "metrics": {"enabled": False}}, ModelServer()) as gateway:
        assert gateway.get("/metrics").status == 404
        assert gateway.context.metrics is None


def test_with_a_port_of_its_own_the_metrics_are_not_on_the_main_one() -> None:
    with Running({**SERVER, "metrics": {"port": 9464}}, ModelServer()) as gateway:
        assert gateway.get("/metrics").status == 404


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_complain_of() -> None:
    with Running({**SERVER, "cache": {"url": "memory:"}}, ModelServer()) as gateway:
        gateway.post("/v1/chat", BODY)
        text = gateway.get("/metrics").body
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_document_lists_every_metric_with_its_labels() -> None:
    metrics = {
        name: (kind, ", ".join(labels))
        for name, (kind, labels) in asyncio.run(list_metrics(limits={"requests_per_minute": 1})).items()
        if name.startswith("parley_")
    }
    document = (ROOT / "docs/reference/metrics.md").read_text()
    rows = re.findall(r"^\| `(parley_\w+)` \| (\w+) \| (.*?) ?\| .+ \|$", document, re.MULTILINE)
    shown = {name: (kind, labels.replace("`", "")) for name, kind, labels in rows}
    assert shown.pop("parley_worker_up") == ("gauge", "worker")
    assert shown == metrics


def test_a_bucket_includes_its_upper_bound_and_all_smaller_values() -> None:
    metrics = Metrics(["m"], [])
    for duration in (0.0, 0.005, 0.0051, 1.0, 1.1, 1000.0):
        metrics.observe_request(RequestRecord("r", "chat", model="m", status=200, duration=duration))
    [family] = [one for one in metrics.collect() if one.name == "parley_request_duration_seconds"]
    counts = {sample.labels.get("le", sample.name): sample.value for sample in family.samples}
    assert (counts["0.005"], counts["0.01"], counts["1"], counts["2.5"], counts["+Inf"]) == (2, 3, 4, 5, 6)
    assert counts["parley_request_duration_seconds_count"] == 6


def test_only_figures_that_were_counted_are_shown_and_none_of_their_creation() -> None:
    with Running(SERVER, ModelServer()) as gateway:
        gateway.post("/v1/chat", BODY)
        text = gateway.get("/metrics").body.decode()
    assert "_created" not in text
    assert re.findall(r"^parley_request_errors_total.*|^parley_upstream_retries_total.*", text, re.MULTILINE) == []
    assert set(re.findall(r'^parley_request_duration_seconds_bucket.*le="([^"]+)"', text, re.MULTILINE)) == {
        *(f"{bound:g}" for bound in DURATION_BOUNDS),
        "+Inf",
    }


def test_the_metrics_do_not_grow_with_the_names_that_callers_choose() -> None:
    metrics = Metrics(["m"], ["local"])
    sizes = []
    for number in range(300):
        record = RequestRecord(f"r{number}", "chat", model=f"m{number}", status=200, cache="miss")
        record.first_token_at, record.duration = record.started_at + 0.1, 1.0
        record.usage = {"prompt_tokens": number, "completion_tokens": 3}
        metrics.observe_request(record)
        sizes.append(sum(len(family.samples) for family in metrics.collect()) if number in (0, 299) else 0)
    assert sizes[0] == sizes[-1]


def test_with_api_keys_only_an_administrators_key_reads_the_metrics() -> None:
    settings = {
        **SERVER,
        "keys": {"a": {"sha256": hash_key("key-a")}, "b": {"sha256": hash_key("key-b"), "admin": True}},
    }
    with Running(settings, ModelServer()) as gateway:
        statuses = [
            gateway.get("/metrics", {"authorization": f"Bearer {key}"} if key else {}).status
            for key in ("", "key-a", "key-b")
        ]
        gateway.post("/v1/chat", BODY, {"authorization": "Bearer key-a"})
        text = gateway.get("/metrics", {"authorization": "Bearer key-b"}).body.decode()
    assert statuses == [401, 403, 200]
    assert Samples(text).sum("parley_requests_total", key="a", model="m", outcome="completed") == 1


def test_the_breaker_of_an_upstream_is_a_metric() -> None:
    def breaker(gateway: Running) -> set[str]:
        samples = scraped(gateway)
        name = "parley_upstream_breaker_state"
        return {state for state in ("closed", "open", "half_open") if samples.sum(name, upstream="local", state=state)}

    with Running(SERVER, ModelServer(lambda _: httpx.Response(500))) as gateway:
        gateway.post("/v1/chat", BODY)
        assert breaker(gateway) == {"closed"}
        assert scraped(gateway).sum("parley_upstream_available", upstream="local") == 1
        for _ in range(5):
            gateway.post("/v1/chat", BODY)
        assert breaker(gateway) == {"open"}
        assert scraped(gateway).sum("parley_upstream_available", upstream="local") == 0


def test_the_times_of_a_request_are_those_of_their_definitions() -> None:
    metrics = Metrics(["m"], ["local"])
    record = RequestRecord("r", "chat", model="m", status=200, cache="miss", started_at=100.0)
    record.received_at, record.sent_at, record.send_seconds = 102.0, 102.25, 0.125
    record.first_token_at, record.duration = 104.0, 10.0
    record.tokens = TokenUsage(input=7, output=13)
    metrics.observe_request(record)
    sums = {
        sample.name: sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name.endswith("_seconds_sum") and sample.value
    }
    assert sums == {
        "parley_request_duration_seconds_sum": 10.0,
        "parley_time_to_first_token_seconds_sum": 4.0,
        "parley_time_per_output_token_seconds_sum": (10.0 - 4.0) / 12,
        "parley_overhead_seconds_sum": 0.25 + 0.125,
    }


def test_a_reload_and_reading_the_metrics_change_no_figure() -> None:
    metrics = Metrics(["m"], ["local"])
    requests = 600
    for number in range(requests):
        record = RequestRecord(f"r{number}", "chat", model="m", status=200, cache="bypass", started_at=100.0)
        record.tokens, record.duration = TokenUsage(input=7, output=3), 0.5
        metrics.observe_request(record)
        if number == 299:
            metrics.set_names(["m"], ["local"])
    for _ in range(2):  # to read the metrics changes nothing
        samples = {
            (sample.name, sample.labels.get("kind")): sample.value
            for family in metrics.collect()
            for sample in family.samples
        }
        assert samples["parley_requests_total", None] == requests
        assert samples["parley_request_duration_seconds_count", None] == requests
        assert samples["parley_request_duration_seconds_sum", None] == requests * 0.5
        assert samples["parley_tokens_total", "input"] == requests * 7
        assert samples["parley_tokens_total", "output"] == requests * 3
