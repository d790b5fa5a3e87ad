"""Who may call the gateway: API keys, the callers that they identify, and the addresses of callers."""

from app.access.caller import ANONYMOUS, Caller, ModelGlobs
from app.access.key_ring import KEY_PREFIX, KeyRing, hash_key, make_key

__all__ = [
    "ANONYMOUS",
    "KEY_PREFIX",
    "Caller",
    "KeyRing",
    "ModelGlobs",
    "hash_key",
    "make_key",
]
