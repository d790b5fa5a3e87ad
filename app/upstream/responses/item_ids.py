"""Write the events of a Responses server with the ids by which their items began.

GitHub Copilot names an item by another id in each event (BerriAI/litellm#30071), mistral.rs at its end
(EricLBuehler/mistral.rs#2309); clients find the item of a delta, and what has begun, by the id. Everything else of an
event stays as it came.
"""

from collections.abc import Sequence

import msgspec

_Fields = dict[str, msgspec.Raw]
_encode = msgspec.json.encode
_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def set_item_id(text: str, id_: str) -> str:
    """Return an event of an item with this id of it."""
    event = _decode_fields(text)
    if "item_id" in event:
        event["item_id"] = msgspec.Raw(_encode(id_))
    if "item" in event:
        event["item"] = _set_id(event["item"], id_)
    return _encode(event).decode()


def set_output_ids(text: str, ids: Sequence[str]) -> str:
    """Return the last event of a reply with these ids of the items of its output; empty: the item keeps its own."""
    event = _decode_fields(text)
    response = _decode_fields(event["response"])
    items = _decode_list(response["output"])
    output = [_set_id(item, id_) if id_ else item for item, id_ in zip(items, ids, strict=True)]
    response["output"] = msgspec.Raw(_encode(output))
    event["response"] = msgspec.Raw(_encode(response))
    return _encode(event).decode()


def _set_id(item: msgspec.Raw, id_: str) -> msgspec.Raw:
    return msgspec.Raw(_encode({**_decode_fields(item), "id": id_}))
