"""Where a request goes at a model server."""

import re

_VERSION = re.compile(r"/v[0-9]\w*(?=/)")
_ENDS_WITH_VERSION = re.compile(r"/v[0-9]\w*$")
_HAS_PATH = re.compile(r"[a-z]+://[^/]+/.")


def join_url(base_url: str, path: str) -> str:
    """Return the URL of a path at a server.

    A path goes on as it came. Where the `base_url` ends with `/v1`, it goes below what is before that, so that
    `/rerank` and `/v1/rerank` are two paths there, too. Below another base with a path (`/api/paas/v4`), the version is
    that of the base.
    """
    if base_url.endswith("/v1"):
        return base_url.removesuffix("/v1") + path
    if _ENDS_WITH_VERSION.search(base_url) or (_HAS_PATH.match(base_url) and path.startswith("/v1/")):
        match = _VERSION.match(path)
        return base_url + (path if match is None else path[match.end() :])
    return base_url + path
