"""The report of a request to a gateway in this process."""

from pathlib import Path
from typing import Any

from tests.in_process_gateway import ModelServer, Running

ADMIN = {"authorization": "Bearer of-the-admin"}


def make_settings_of(path: Path, **more: Any) -> dict[str, Any]:
    return {
        "upstreams": {"local": {"base_url": "http://model.test/v1", "api_key": "key-of-the-upstream"}},
        "models": {"m": {"upstreams": ["local"], "aliases": ["mm"]}},
        "server": {"admin_key": "of-the-admin"},
        "request_log": {"keep": "all", "url": f"sqlite:///{path}/requests.db"},
        **more,
    }


def record(path: Path, server: ModelServer, url: str, body: Any, **settings: Any) -> Path:
    """Ask a gateway, and return the file of the report."""
    with Running(make_settings_of(path, **settings), server) as gateway:
        gateway.post(url, body, {"user-agent": "tests"})
        listed = gateway.get("/v1/requests", ADMIN).json["data"]
        answer = gateway.get(f"/v1/requests/{listed[0]['id']}/export", ADMIN)
    assert answer.status == 200, answer.body
    file = path / "report.json"
    file.write_bytes(answer.body)
    return file
