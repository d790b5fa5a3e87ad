"""The cache: stored replies, and single-flight calls that several requests share."""

from app.cache.cache import Cache
from app.cache.inflight import InFlightCall
from app.cache.log import ALL, UNKNOWN, EqualUntil, ReplyLocation
from app.cache.policy import MODES, Apply, CachePolicy, Mode, make_cache_policy
from app.cache.stored_reply import PackedReply
from app.cache.types import CacheRequest, CacheRules, FoundReply, ReplaySource

__all__ = [
    "ALL",
    "MODES",
    "UNKNOWN",
    "Apply",
    "Cache",
    "CachePolicy",
    "EqualUntil",
    "Mode",
    "PackedReply",
    "ReplyLocation",
    "CacheRequest",
    "CacheRules",
    "FoundReply",
    "InFlightCall",
    "ReplaySource",
    "make_cache_policy",
]
