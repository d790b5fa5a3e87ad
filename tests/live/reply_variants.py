"""Every way in which a reply can be sent, and a reply without what differs in each reply."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.formats import FORMATS

from tests.live.caching_gateway import Answer, Asker, Json

REQUEST = {"x-request-id": "r1"}
_MARKS = {"cached": bool, "age": int}
_COST = frozenset(("cost", "cost_details", "upstream_cost", "cost_in_usd_ticks"))
"""A hit has the first of them, which is 0, and none of the others."""
_TOTALS = {"prompt_tokens", "completion_tokens", "total_tokens"}
_SAID_FOR_THE_MARK = ("usage", "metadata")
"""Where AutoGen's and AgentScope's messages have all of a usage that has more than the totals: a mark is more."""
_CALL_ID = re.compile(r"call_[0-9a-f]{24}")
_SEAL = re.compile(r"parley1\.([A-Za-z0-9_-]+)")


@dataclass(frozen=True, slots=True)
class Way:
    name: str
    path: str
    body: Json

    async def ask(self, gateway: Asker, **body: Any) -> Answer:
        return await gateway.ask(path=self.path, headers=REQUEST, **{**self.body, **body})


def _ways() -> Iterator[Way]:
    for name in FORMATS:
        for mode in ("delta", "snapshot"):
            yield Way(f"{name} {mode}", "/v1/chat", {"reply_format": name, "stream": True, "stream_mode": mode})
        yield Way(f"{name} whole", "/v1/chat", {"reply_format": name, "stream": False})
    face, cached = "/v1/chat/completions", {"cache": {"mode": "on"}}
    yield Way("completions stream", face, {"stream": True, "stream_options": {"include_usage": True}, **cached})
    yield Way("completions whole", face, {"stream": False, **cached})


WAYS = list(_ways())


def normalize_events(answer: Answer) -> list[Any]:
    """Event by event, but for the id of the reply, the marks of the cache and the cost, which is 0 for a hit.

    Time does not pass in these tests.
    """
    id_ = answer.headers["x-parley-response-id"]
    body = answer.body.decode().replace(id_, "chat-id").replace(id_.removeprefix("chat-"), "id")
    if not answer.streamed:
        return [_unmarked(json.loads(body))]
    return [_event(block) for block in body.split("\n\n")]


def alike(events: list[Any]) -> list[Any]:
    """With ids of calls that are the gateway's own counted from 1: another reply has others."""
    seen: dict[str, str] = {}
    text = _SEAL.sub(_open_seal, json.dumps(events))
    return list(json.loads(_CALL_ID.sub(lambda found: seen.setdefault(found[0], f"own-{len(seen)}"), text)))


def _open_seal(found: re.Match[str]) -> str:
    """Return what is in the seal, for a string of JSON: ids of calls too."""
    encoded = found[1] + "=" * (-len(found[1]) % 4)
    return json.dumps(base64.urlsafe_b64decode(encoded).decode())[1:-1]


def _event(block: str) -> list[Any]:
    return [_line(line) for line in block.split("\n")]


def _line(line: str) -> Any:
    data = line.removeprefix("data: ")
    return _unmarked(json.loads(data)) if data != line and data != "[DONE]" else line


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _unmarked(one) for key, one in value.items() if type(one) is not _MARKS.get(key) and key not in _COST}
    if isinstance(usage := plain.get("usage"), str):
        plain["usage"] = _unmarked(json.loads(usage))
    return {key: one for key, one in plain.items() if not (key in _SAID_FOR_THE_MARK and _only_totals(one))}


def _only_totals(usage: Any) -> bool:
    return (
        isinstance(usage, dict) and bool(usage) and _TOTALS.issuperset(key for key in usage if usage[key] is not None)
    )
