"""Parse the URL of the state database.

sqlite:///state.db   sqlite:////data/state.db       a file; four slashes begin an absolute path
postgresql://user:password@host:5432/parley         PostgreSQL, with the options of libpq as a query
memory:                                             this process, until it ends
null:                                               nothing is kept
"""

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import unquote

_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\],]*)(:\d{0,5})?"
_HOSTS = re.compile(rf"{_HOST}(,{_HOST})*")
_EXAMPLES = "such as sqlite:////data/state.db, postgresql://user@127.0.0.1/parley, memory: or null:"


@dataclass(frozen=True, slots=True)
class FileUrl:
    path: str
    """Empty: in memory."""
    kind: Literal["sqlite"] = "sqlite"


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    url: str = field(repr=False)
    """May hold a password."""
    host: str = ""
    database: str = ""
    kind: Literal["postgres"] = "postgres"


@dataclass(frozen=True, slots=True)
class NoUrl:
    kind: Literal["null"] = "null"


StateUrl: TypeAlias = FileUrl | PostgresUrl | NoUrl


def parse_state_url(url: str) -> StateUrl:
    """Parse the URL of the state database. Raises ValueError, whose message never repeats the URL."""
    scheme, colon, rest = url.partition(":")
    if not colon or re.search(r"[\s\x00-\x1f]", url):
        raise ValueError(f"must be a URL, {_EXAMPLES}")
    if scheme in ("memory", "null"):
        if rest.strip("/"):
            raise ValueError(f"must be just {scheme}: with nothing after the colon")
        return FileUrl("") if scheme == "memory" else NoUrl()
    if scheme == "sqlite":
        path = unquote(rest[3:])
        if not rest.startswith("///") or not path.strip("/") or path.endswith("/") or "?" in rest:
            raise ValueError("must name a file, as sqlite:///state.db and sqlite:////data/state.db do")
        return FileUrl(path)
    if scheme in ("postgresql", "postgres"):
        return _parse_postgres(url)
    raise ValueError(f"must begin with sqlite, postgresql, memory or null, {_EXAMPLES}")


def _parse_postgres(url: str) -> PostgresUrl:
    """Raises ValueError, also for a login with characters that end it, of which libpq would take a part as the host."""
    match = re.fullmatch(r"\w+://(?:([^@/?#]*)@)?([^@/?#]*)(?:/([^@/?#]*))?(?:\?[^#]*)?", url)
    if match is None or not _HOSTS.fullmatch(match[2]) or re.search(r"%(?![0-9A-Fa-f]{2})", url):
        raise ValueError(
            "must be a URL as postgresql://user:password@host:5432/parley is; in a user or password write @ as %40, "
            "/ as %2F, # as %23, ? as %3F and % as %25"
        )
    if not match[3]:
        raise ValueError("must name a database, as postgresql://user:password@host:5432/parley does")
    first = re.match(_HOST, match[2])
    assert first is not None
    return PostgresUrl(url, unquote(first[1]).strip("[]") or "localhost", match[3])


def describe_state_url(address: StateUrl) -> str:
    """Describe where the state is kept, without the login."""
    match address:
        case FileUrl(""):
            return "memory"
        case FileUrl(path):
            return path
        case PostgresUrl():
            return f"database {address.database} at {address.host}"
        case _:
            return address.kind
