"""The files of the playground, read from the package."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from msgspec import Struct

INDEX = "index.html"
_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "md": "text/plain; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}


class SiteFile(Struct, frozen=True):
    data: bytes
    media_type: str
    etag: str
    """A hash of `data` in quotes, as the header `etag` has it."""


@cache
def list_names() -> frozenset[str]:
    """Return the paths of all files below `site`, such as `views/chat.js`."""
    return frozenset(_walk(_site(), ""))


@cache
def read_file(name: str) -> SiteFile:
    """Read a file of `list_names` from the disk; later calls return the same."""
    data = _site().joinpath(*name.split("/")).read_bytes()
    etag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
    return SiteFile(data, _MEDIA_TYPES[name.rpartition(".")[2]], etag)


def _site() -> Traversable:
    return resources.files(__package__).joinpath("site")


def _walk(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name
