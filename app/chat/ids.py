"""Make ids for calls without one, from their content: identical conversations then give identical bytes."""

import hashlib


def make_call_id(*what: str | int) -> str:
    """`call_` and 24 hex digits. Lone surrogates are no error."""
    seed = ":".join(map(str, what))
    return "call_" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]
