"""A gateway with a model for each endpoint whose requests pass through."""

import json
from typing import Any

import httpx

from tests.in_process_gateway import ModelServer, Running

ENDPOINTS = {
    "e": ["embeddings"],
    "r": ["rerank"],
    "p": ["score", "classify", "pooling", "moderations"],
    "i": ["images"],
    "c": ["completions"],
    "t": ["speech"],
    "w": ["audio"],
    "m": ["chat"],
}
SETTINGS: dict[str, Any] = {
    "upstreams": {
        **{name: {"base_url": f"http://{name}.test/v1"} for name in ENDPOINTS},
        "second": {"base_url": "http://second.test/v1"},
        "third": {"base_url": "http://third.test/v1"},
        "odd": {"base_url": "http://odd.test/v1", "paths": {"rerank": "/rank"}},
    },
    "models": {
        **{name: {"upstreams": [name], "name": f"up-{name}", "endpoints": row} for name, row in ENDPOINTS.items()},
        "retried": {"upstreams": ["third", "second"], "endpoints": ["embeddings"], "strategy": "session"},
        "falls": {"upstreams": ["third"], "endpoints": ["embeddings"], "fallbacks": ["same"], "vector_space": "s"},
        "same": {"upstreams": ["second"], "endpoints": ["embeddings"], "vector_space": "s"},
        "heard": {"upstreams": ["third", "second"], "endpoints": ["audio"]},
        "odd": {"upstreams": ["odd"], "endpoints": ["rerank"]},
        "priced": {
            "upstreams": ["e"],
            "endpoints": ["embeddings"],
            "price": {"input": 1_000_000, "output": 0},
            "defaults": {"temperature": 0.5, "extra_body": {"dimensions": 3}},
        },
    },
    "server": {"log_level": "error"},
}


class Gateway(Running):
    def __init__(self) -> None:
        self.server = ModelServer(lambda request: self.answers[min(len(self.server.requests), len(self.answers)) - 1])
        self.answers: list[httpx.Response] = []
        super().__init__(SETTINGS, self.server)

    def send(self, path: str, body: Any, *answers: httpx.Response) -> Any:
        self.server.requests.clear()
        self.answers = list(answers)
        return self.post(path, body)

    @property
    def sent(self) -> list[tuple[str, Any]]:
        """The URLs and the bodies that servers were sent."""
        return [(str(request.url), json.loads(request.content)) for request in self.server.requests]

    @property
    def last(self) -> Any:
        """The record of the last request."""
        self.context.ended.report()
        return self.context.recent.list_newest_first()[0]


def whole(body: Any, status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
