"""Frames as the chaos run reads them."""

import json
from typing import Any


def frame(seq: int, type_: str, **fields: Any) -> bytes:
    return (
        b"id: %d\nevent: %b\ndata: " % (seq, type_.encode())
        + json.dumps({"type": type_, "seq": seq, **fields}).encode()
    )


OPENING = frame(1, "response.started", response_id="chat-1")
