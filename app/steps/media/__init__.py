"""Sends media in the form that a model accepts, and describes the others in words.

`media_requests` lists the media whose bytes are needed, the gateway loads them, and `rewrite_media` puts the results
into the request. Media that could not be loaded stay unchanged; the text of such a file is left out.
"""

from app.steps.media.names import basename
from app.steps.media.requests import ImageLimits, MediaRequest, find_passed_urls, media_requests
from app.steps.media.rewrite import rewrite_media

__all__ = ["ImageLimits", "MediaRequest", "rewrite_media", "basename", "find_passed_urls", "media_requests"]
