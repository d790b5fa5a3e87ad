"""Ids that nobody gave, made from what they name: equal conversations give equal messages."""

import hashlib
import json
from typing import Any


def make_unique(id: str, used: set[str]) -> str:
    found, count = id, 1
    while found in used:
        count += 1
        found = f"{id}_{count}"
    used.add(found)
    return found


def digest(*what: Any) -> str:
    data = json.dumps(what, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:22]
