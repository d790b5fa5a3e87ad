"""`parley doctor` and guards: each service is asked about a harmless text in each of its phases."""

import json
from typing import Any

import httpx
import pytest
from app.config.settings import Settings
from app.doctor.guards import HARMLESS, WITH_ADDRESS, check_guards

from tests.in_process_gateway import ModelServer

pytestmark = pytest.mark.anyio

PLACES = {"presidio": (2, 17), "utf16": (1, 16)}
"""Where two services say that the address is."""


def answer(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    verdicts: dict[str, Any] = {
        "good": {"verdict": "pass"},
        "strict": {"verdict": "reject", "reason": "no"},
        "presidio": [],
        "utf16": [],
    }
    assert any(text in json.dumps(body, ensure_ascii=False) for text in (HARMLESS, WITH_ADDRESS))
    if body.get("text") == WITH_ADDRESS and request.url.host in PLACES:
        start, end = PLACES[request.url.host]
        verdicts[request.url.host] = [{"start": start, "end": end, "entity_type": "EMAIL_ADDRESS", "score": 1.0}]
    return httpx.Response(200, stream=httpx.ByteStream(json.dumps(verdicts.get(request.url.host, {})).encode()))


async def test_each_service_is_asked_in_each_phase() -> None:
    rows = {
        "good": {"url": "http://good"},
        "strict": {"url": "http://strict", "phases": ["request"]},
        "bad": {"url": "http://bad", "phases": ["reply"]},
        "names": {"url": "http://presidio", "api": "presidio"},
        "down": {"url": "http://down", "api": "presidio"},
        "utf16": {"url": "http://utf16", "api": "presidio"},
        "pii": {"detectors": ["email"]},
    }
    shown: list[str] = []
    found = await check_guards(Settings.model_validate({"demo": True, "guards": rows}), shown.append, _Services())
    assert shown == ["the guards"]
    assert [(row.subject, row.check, row.status) for row in found] == [
        ("guard good", "request", "ok"),
        ("guard good", "reply", "ok"),
        ("guard strict", "request", "warning"),
        ("guard bad", "reply", "problem"),
        ("guard names", "request", "ok"),
        ("guard down", "request", "problem"),
        ("guard utf16", "request", "problem"),
    ]


async def test_without_services_nothing_is_checked() -> None:
    assert await check_guards(Settings.model_validate({"demo": True})) == []


class _Services(ModelServer):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return answer(request)
