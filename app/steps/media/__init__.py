"""Sends media in the form that a model accepts, and describes the others in words.

`media_requests` lists the media whose bytes are needed, the gateway loads them, and `rewrite_media` puts the results
into the request.
"""

from app.steps.media.names import basename, is_web_url
from app.steps.media.requests import (
    ImageLimits,
    MediaRequest,
    accepts_uploads,
    extra_url_requests,
    find_required,
    make_url_requests,
    media_requests,
    passed_url_requests,
)
from app.steps.media.rewrite import rewrite_media
from app.steps.media.texts import write_placeholder

__all__ = [
    "ImageLimits",
    "MediaRequest",
    "accepts_uploads",
    "basename",
    "extra_url_requests",
    "find_required",
    "is_web_url",
    "make_url_requests",
    "media_requests",
    "passed_url_requests",
    "rewrite_media",
    "write_placeholder",
]
