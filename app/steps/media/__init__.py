"""Media that a model takes are given to it in the form it takes; the others are described to it in words.

In order: `wanted` says whose bytes are needed, the gateway gets them, `apply` rewrites the request with what became of
them. A wanted medium without a result stays as the caller gave it, a file's text is then left out.
"""

from app.steps.media.names import basename
from app.steps.media.requests import ImageLimits, MediaRequest, find_passed_urls, media_requests
from app.steps.media.rewrite import rewrite_media

__all__ = ["ImageLimits", "MediaRequest", "rewrite_media", "basename", "find_passed_urls", "media_requests"]
