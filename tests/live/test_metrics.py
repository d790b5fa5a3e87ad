"""`/metrics` of a gateway with several worker processes, and the headers of a trace on real connections."""

import json
import signal

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.live.gateway import DONE, end, say, serving
from tests.live.parley_command import process
from tests.redis_server import free_port
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False})
REQUESTS = 12


async def test_every_worker_counts_the_requests_of_all() -> None:
    replies = [Reply([say("a"), end(), DONE], chunked=True)] * REQUESTS
    async with ScriptedServer(*replies) as upstream, process(upstream, workers=2) as gateway:
        url = "http://{}:{}".format(*gateway.address)
        headers = {"content-type": "application/json", "connection": "close"}
        async with httpx.AsyncClient(base_url=url, headers=headers, verify=False) as client:
            while (await client.get("/metrics")).text.count("parley_worker_up{") < 2:
                pass  # the second worker still starts
            for _ in range(REQUESTS):
                assert (await client.post("/v1/chat", content=BODY)).status_code == 200
            totals = [_count_requests((await client.get("/metrics")).text) for _ in range(6)]
    assert totals == [REQUESTS] * len(totals)


@pytest.mark.parametrize(("workers", "spawned"), [(1, False), (2, False), (2, True)])
async def test_a_port_of_its_own_serves_the_metrics_and_the_health_checks(workers: int, spawned: bool) -> None:
    port = free_port()
    before = ("env", f"PARLEY_METRICS__PORT={port}")
    async with process(None, workers=workers, forked=False, before=before, spawned=spawned) as gateway:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
            for method, path, status in [
                ("GET", "/metrics", 200),
                ("HEAD", "/metrics", 200),
                ("GET", "/healthz", 200),
                ("GET", "/readyz", 200),
                ("POST", "/metrics", 405),
                ("GET", "/v1/models", 404),
            ]:
                answer = await client.request(method, path, headers={"connection": "close"})
                assert (answer.status_code, path) == (status, path)
            text = (await client.get("/metrics", headers={"connection": "close"})).text
        assert text.startswith("# HELP parley_requests_total ")
        gateway.signal(signal.SIGTERM)
        assert (await gateway.ended())[0] == 0


def _count_requests(text: str) -> float:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == "parley_requests_total")


async def test_the_trace_of_a_request_reaches_the_model_server_over_a_real_connection() -> None:
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    sent = {"traceparent": f"00-{trace}-{span}-01", "tracestate": "a=1", "content-type": "application/json"}
    whole = [say("a"), end(), DONE]
    async with ScriptedServer(*[Reply(whole, chunked=True)] * 2) as upstream, serving(upstream) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, verify=False) as client:
            for headers in (sent, {"content-type": "application/json"}):
                assert (await client.post("/v1/chat", content=BODY, headers=headers)).status_code == 200
    first, second = upstream.requests
    assert {name: first.headers[name] for name in ("traceparent", "tracestate")} == {
        name: sent[name] for name in ("traceparent", "tracestate")
    }
    assert first.body == second.body
    assert "traceparent" not in second.headers
