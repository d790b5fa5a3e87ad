"""`/metrics` of a gateway with several worker processes."""

import json

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.live.gateway import DONE, end, say
from tests.live.parley_command import process
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


def _count_requests(text: str) -> float:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == "parley_requests_total")
