"""Logs: one JSON line a request, without prompts, keys or bodies."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

from app.chat.events import Finish
from app.errors import ParleyError

log = logging.getLogger("parley.request")


class Outcome(Protocol):
    """What a delivery says of itself when it has ended."""

    status: int
    outcome: Finish | None
    error: ParleyError | None
    gone: bool
    first_at: float | None


class RequestLog:
    """Gathers what one line says; `write` it once."""

    def __init__(self, request_id: str, face: str) -> None:
        self._began = time.perf_counter()
        self._fields: dict[str, Any] = {"request_id": request_id, "face": face}

    def request(self, model: str, stream: bool, metadata: Mapping[str, str] | None) -> None:
        self._fields |= {"model": model, "stream": stream}
        if metadata:
            self._fields["metadata"] = dict(metadata)

    def failed(self, error: ParleyError) -> None:
        self._fields |= {"status": error.status, "error": error.code}

    def gone(self) -> None:
        self._fields |= {"status": 499, "error": "caller_gone"}

    def delivered(self, delivery: Outcome, cache: str) -> None:
        self._fields |= {"status": delivery.status, "cache": cache}
        if delivery.gone:
            self.gone()
        elif delivery.error is not None:
            self._fields["error"] = delivery.error.code
        if delivery.outcome is not None:
            self._fields["finish_reason"] = delivery.outcome.reason
            usage = delivery.outcome.usage or {}
            self._fields |= {
                name: usage[name] for name in ("prompt_tokens", "completion_tokens") if isinstance(usage.get(name), int)
            }

    def write(self) -> None:
        if log.isEnabledFor(logging.INFO):
            self._fields["ms"] = round((time.perf_counter() - self._began) * 1000, 1)
            log.info("request", extra={"fields": self._fields})


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: str) -> None:
    """Everything to stderr, one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").disabled = True
