"""The cache: stored replies, and single-flight calls that several requests share."""

from app.cache.cache import Cache
from app.cache.policy import MODES, Apply, CachePolicy, Mode, make_cache_policy
from app.cache.values import CacheRequest, CacheRules, Found, Join, New
from app.calls.call import InFlightCall
from app.calls.log import ReplaySource, ReplyLocation

__all__ = [
    "MODES",
    "Apply",
    "Cache",
    "CachePolicy",
    "Mode",
    "ReplyLocation",
    "CacheRequest",
    "CacheRules",
    "Found",
    "InFlightCall",
    "Join",
    "New",
    "ReplaySource",
    "make_cache_policy",
]
