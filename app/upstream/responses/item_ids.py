"""Write the events of a Responses server with the ids by which their items began.

GitHub Copilot names an item by another id in each event (BerriAI/litellm#30071), mistral.rs at its end
(EricLBuehler/mistral.rs#2309); clients find the item of a delta, and what has begun, by the id.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

_Json = dict[str, Any]


def set_item_id(text: str, id_: str) -> str:
    """Return an event of an item with this id of it."""
    event = _read(text)
    if isinstance(event.get("item"), dict):
        event["item"] = {**event["item"], "id": id_}
    if "item_id" in event or "item" not in event:
        event["item_id"] = id_
    return _write(event)


def set_output_ids(text: str, ids: Sequence[str]) -> str:
    """Return the last event of a reply with these ids of the items of its output; empty: the item keeps its own."""
    event = _read(text)
    items = zip(event["response"]["output"], ids, strict=True)
    output = [{**item, "id": id_} if id_ else item for item, id_ in items]
    return _write({**event, "response": {**event["response"], "output": output}})


def _read(text: str) -> _Json:
    """Half a surrogate pair stays one: the other half may be in the next delta."""
    try:
        value: _Json = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        value = json.loads(text)
    return value


def _write(event: _Json) -> str:
    try:
        return msgspec.json.encode(event).decode()
    except UnicodeEncodeError:
        return json.dumps(event)
