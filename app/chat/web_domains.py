"""Which pages a list of domains names, in the form of Anthropic's and OpenAI's tools for the web.

An entry is a domain, with all of its subdomains, and perhaps the beginning of a path: `example.org/docs`. A `*` in the
path stands for any characters.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

_DOMAIN = re.compile(r"[^\s/:?#@*\\]+\.?(/[^\s?#\\]*)?")


def find_domain_mistake(entry: str) -> str | None:
    """Return what is wrong with an entry; None if nothing is."""
    if "://" in entry:
        return "must be a domain without a scheme, such as example.org"
    if _DOMAIN.fullmatch(entry) is None:
        return "must be a domain without a port, such as example.org or example.org/docs"
    return None


def allows_url(url: str, allowed: Sequence[str], blocked: Sequence[str]) -> bool:
    """Whether a page may be shown. An empty list says nothing."""
    if not allowed and not blocked:
        return True
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    path = parts.path or "/"
    if allowed and not any(_fits(host, path, entry) for entry in allowed):
        return False
    return not any(_fits(host, path, entry) for entry in blocked)


def _fits(host: str, path: str, entry: str) -> bool:
    domain, slash, rest = entry.partition("/")
    domain = domain.lower().rstrip(".")
    if host != domain and not host.endswith(f".{domain}"):
        return False
    return not rest or _begins_with(path, slash + rest)


def _begins_with(path: str, pattern: str) -> bool:
    """Whether the beginning of a path fits a pattern."""
    first, *others = pattern.split("*")
    if not path.startswith(first):
        return False
    place = len(first)
    for part in others:
        found = path.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True
