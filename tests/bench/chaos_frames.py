"""Frames of `POST /v1/chat`, as the clients of the chaos run read them."""

import json
from typing import Any


def frame(seq: int, type_: str, **fields: Any) -> bytes:
    return (
        b"id: %d\nevent: %b\ndata: " % (seq, type_.encode())
        + json.dumps({"type": type_, "seq": seq, **fields}).encode()
    )


OPENING = frame(1, "response.started", response_id="chat-1")
