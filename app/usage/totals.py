"""Totals of usage: `UsageRow`, the numbers of one day, key, user, model and set of tags, and what they are added up
by. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import astuple, replace

from app.chat.token_usage import CallUsage
from app.usage.tags import split_tags

GroupBy: TypeAlias = Literal["day", "key", "team", "user", "model", "tag"]
GROUPS: tuple[GroupBy, ...] = get_args(GroupBy)
DEFAULT_GROUPS: tuple[GroupBy, ...] = ("day", "key", "model")


class Totals(Struct, frozen=True, gc=False):
    requests: int = 0
    errors: int = 0
    """Requests that ended with an error of the caller, a model server or the gateway."""
    cache_hits: int = 0
    """Requests that made no call to a model: answered from the cache, or by the call of an identical request."""
    estimated_requests: int = 0
    """Requests whose tokens are an estimate, because the model server reported none."""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    """Those of `input_tokens` that the model server read from its own cache."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """Those of `output_tokens` that are reasoning."""
    saved_tokens: int = 0
    """Input and output tokens of the replies of `cache_hits`; no other number contains them."""
    cost: float = 0.0
    searches: int = 0
    """Searches of the web that reached their server."""
    fetches: int = 0
    """The same of pages of the web."""

    @classmethod
    def from_call(cls, call: CallUsage) -> "Totals":
        """Return the numbers of a call to a model, without its request."""
        tokens = call.tokens
        return cls(
            estimated_requests=int(call.estimated),
            input_tokens=tokens.input,
            cached_input_tokens=tokens.cached_input,
            output_tokens=tokens.output,
            reasoning_tokens=tokens.reasoning,
            cost=call.cost or 0.0,
        )


NUMBERS: tuple[str, ...] = Totals.__struct_fields__
"""The names of the numbers, in the order of the fields."""


class RowKey(Struct, frozen=True, order=True):
    day: str
    """The UTC day, as 2026-11-22."""
    key: str
    """The name of the API key; empty for requests without one."""
    model: str
    """The model that answered, which may be a fallback; the one that the request named, without aliases, if none did;
    empty if the request was refused before."""
    team: str = ""
    """The team of the key; empty without one. A row has one team: of a key that changes its team, the later one of the
    day."""
    user: str = ""
    """The end user that the request named; empty without one."""
    tag: str = ""
    """All tags of the request, as `join_tags` returns them; empty without any. A request counts in one row, whatever
    its tags are."""


class UsageRow(Struct, frozen=True):
    key: RowKey
    totals: Totals


class UsageQuery(Struct, frozen=True):
    first_day: str
    last_day: str
    """This day is included."""
    group_by: tuple[GroupBy, ...] = DEFAULT_GROUPS
    """At least one; fields that are not in it are empty in the result."""
    key: str | None = None
    model: str | None = None
    team: str | None = None
    user: str | None = None
    tag: str | None = None


def add_totals(counted: Iterable[Totals]) -> Totals:
    """Return the sum of each number."""
    return Totals(*map(sum, zip(*map(astuple, counted), strict=True)))


def sum_totals(rows: Iterable[UsageRow]) -> Totals:
    return add_totals([row.totals for row in rows])


def split_by_tag(query: UsageQuery, rows: Sequence[UsageRow]) -> Sequence[UsageRow]:
    """Return the rows with one tag each, if the query groups by tags: a request with two counts for both, so their sum
    may be more than that of the rows."""
    if "tag" not in query.group_by:
        return rows
    split: dict[RowKey, list[Totals]] = {}
    for row in rows:
        for tag in split_tags(row.key.tag):
            split.setdefault(replace(row.key, tag=tag), []).append(row.totals)
    return [UsageRow(key, add_totals(split[key])) for key in sorted(split, key=_order)]


def _order(key: RowKey) -> tuple[str, ...]:
    return tuple(getattr(key, name) for name in GROUPS)
