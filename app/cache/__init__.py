"""The cache: stored replies, and single-flight calls that several requests share."""

from app.cache.cache import Cache
from app.cache.log import ReplyLocation
from app.cache.policy import MODES, Apply, CachePolicy, Mode, make_cache_policy
from app.cache.stored_reply import PackedReply
from app.cache.types import CacheRequest, CacheRules, FoundReply, ReplaySource

__all__ = [
    "MODES",
    "Apply",
    "Cache",
    "CachePolicy",
    "Mode",
    "PackedReply",
    "ReplyLocation",
    "CacheRequest",
    "CacheRules",
    "FoundReply",
    "ReplaySource",
    "make_cache_policy",
]
