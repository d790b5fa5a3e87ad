"""Requests made from the OpenAPI document: nothing fails, and what comes back is what the document says.

`FUZZ=long` makes 5,000 times as many, those that cover each keyword of the schemas, and those of the document's
examples, which `test_openapi.py` sends too.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.effort import LONG
from tests.in_process_gateway import SERVER, ModelServer, Running

DOCUMENT = json.loads((Path(__file__).parent.parent / "openapi/openapi.json").read_text())
schema = schemathesis.openapi.from_dict(DOCUMENT)
# Their requests are computed while tests are collected, which takes a minute and a second in each process.
schema.config.phases.coverage.enabled = LONG
schema.config.phases.examples.enabled = LONG


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    quiet = {**SERVER, "default_model": "m", "server": {"log_level": "error", "commit_seconds": 0.05}}
    with Running(quiet, ModelServer()) as running:
        yield running


@schema.exclude(path="/v1/status/events").parametrize()  # the stream ends only with the gateway
@settings(
    max_examples=20_000 if LONG else 4,
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_the_document_is_kept(case: schemathesis.Case[Any], gateway: Running) -> None:
    sent = requests.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare()
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body or b""
    assert isinstance(body, bytes)
    headers = {name: str(value) for name, value in sent.headers.items() if name.lower() != "content-length"}
    answer = gateway.ask(str(sent.method), sent.path_url, [body], headers)
    assert answer.headers["x-request-id"]
    header_lists = {name: answer.headers.get_list(name) for name in answer.headers}
    response = schemathesis.Response(answer.status, header_lists, answer.body, sent, elapsed=0.0, verify=True)
    # A schema cannot say everything that is refused: the order of messages, results without calls, equal names.
    case.validate_response(response, excluded_checks=[positive_data_acceptance, not_a_server_error])
    assert answer.status < 500 or answer.json["error"]["code"] in _codes_asked_for(case.body), answer.body


def _codes_asked_for(body: Any) -> set[str]:
    """The codes of 5xx answers that a caller can ask for: only a kept reply, or one within a time that is as short as
    1e-300 s. Whether that time is over before the first token is a matter of how busy this machine is."""
    config = body.get("generate_cfg") if isinstance(body, dict) else None
    places = [one for one in (body, config) if isinstance(one, dict)]
    hurried = any(one.get("request_timeout") is not None for one in places)
    return {"cache_miss", "timeout"} if hurried else {"cache_miss"}
