"""`/v1/keys`: API keys made, changed, rotated and revoked while the gateway runs. All need an administrator's key."""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query, Request
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from app.access import KEY_PREFIX, hash_key, make_key
from app.access.stored_keys import KeyExists, KeyExpired, KeyRow, RevokedKey
from app.api.admin import check_admin
from app.api.application import get_context
from app.api.audit import log_admin_action, name_admin
from app.api.context import AppContext
from app.api.key_watcher import KeyWatcher
from app.config.mistakes import find_mistakes
from app.config.tables.callers import Fallbacks, Key, KeyName, UserSettings
from app.config.tables.limits import LimitSettings
from app.errors import Forbidden, InvalidInput, NotFound, StoreDown, Violation
from app.formats.json_object import parse_object
from app.formats.openapi import Described, describe, give_examples, json_content
from app.state import StateError
from app.validation.violations import to_violations

T = TypeVar("T")
router = APIRouter(tags=["keys"], responses=describe(401, 403, 503))
MAX_OVERLAP_SECONDS = 90 * 86400.0
_MAX_NOTE = 1000
_REMOVABLE = frozenset(("expires", "team", "cache_scope", "users"))
"""The fields of a key that `null` removes."""
_NULL_LIMIT = "is null: give a number, or leave it out to remove it with the change"
_ROW: dict[str, Any] = {
    "name": "alice",
    "source": "stored",
    "state": "active",
    "models": ["qwen*"],
    "admin": False,
    "fallbacks": "all",
    "team": "research",
    "cache_scope": "alice",
    "limits": {"requests_per_minute": 60},
    "users": "header:x-user",
    "users_required": True,
    "hash_users": False,
    "limits_per_user": {"requests_per_minute": 6},
    "expires": "2027-01-01T00:00:00Z",
    "note": "laptop",
    "created": "2026-11-26T12:00:00Z",
    "created_by": "root",
    "last_used": "2026-11-26T18:30:00Z",
    "previous_until": "2026-11-27T12:00:00Z",
}


class NewKey(BaseModel):
    """What a new key may do."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: KeyName
    models: list[str] = ["*"]
    """Patterns of the models that it may use."""
    admin: StrictBool = False
    fallbacks: Fallbacks = "all"
    """`own`: only those of a model's fallbacks answer that the key could ask for itself."""
    team: str | None = None
    """The team of the configuration to which it belongs."""
    cache_scope: str | None = None
    """Keys with the same scope share stored replies. Without it, the key shares them with none."""
    limits: LimitSettings = LimitSettings()
    users: str | None = None
    """Where requests name their end user: `header:NAME`, `user`, `metadata.user_id` or `metadata.NAME`."""
    users_required: StrictBool = False
    """Requests for a reply must name a user."""
    hash_users: StrictBool = False
    """Users are known by a keyed hash of their name only."""
    limits_per_user: LimitSettings = LimitSettings()
    expires: str | None = None
    """A date, or a date and time, from which on it is refused."""
    note: str = Field(default="", max_length=_MAX_NOTE)


class ChangedKey(BaseModel):
    """The fields to change; others stay. `null` changes nothing, but in `expires`, `team`, `cache_scope` and `users`,
    which it removes."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    models: list[str] | None = None
    admin: StrictBool | None = None
    fallbacks: Fallbacks | None = None
    team: str | None = None
    """`null`: it belongs to no team."""
    cache_scope: str | None = None
    """`null`: it shares stored replies with no other key."""
    limits: LimitSettings | None = None
    """All limits: those that are not named are removed. None of them can be `null`."""
    users: str | None = None
    """`null`: requests name no end users; what the key says of them is removed, too."""
    users_required: StrictBool | None = None
    hash_users: StrictBool | None = None
    limits_per_user: LimitSettings | None = None
    """All limits, as `limits`."""
    expires: str | None = None
    """`null`: it never expires."""
    note: str | None = Field(default=None, max_length=_MAX_NOTE)


class Rotation(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    overlap_seconds: float = Field(default=0.0, ge=0, le=MAX_OVERLAP_SECONDS, allow_inf_nan=False)
    """How long the key before is accepted too."""


class KeyInfo(Described):
    model_config = give_examples(_ROW)

    name: str
    source: str
    """`stored`, or `file` for a key of the configuration, which cannot be changed here."""
    state: Literal["active", "expired", "revoked"]
    models: list[str]
    admin: bool
    fallbacks: Fallbacks
    team: str | None
    cache_scope: str
    limits: LimitSettings
    users: str | None
    users_required: bool
    hash_users: bool
    limits_per_user: LimitSettings
    expires: datetime | None
    note: str
    created: datetime | None
    created_by: str | None
    """The name of the administrator's key."""
    last_used: datetime | None
    """Stored once a minute."""
    previous_until: datetime | None
    """Until when the key before the last rotation is accepted too."""
    revoked: datetime | None = None
    revoked_by: str | None = None
    """The name of the administrator's key."""


class KeyWithSecret(KeyInfo):
    model_config = give_examples({"key": "parley-…", **_ROW})

    key: str
    """The key itself. It is shown only now."""


class KeyList(Described):
    model_config = give_examples({"data": [_ROW]})

    data: list[KeyInfo]


class DeletedKey(Described):
    model_config = give_examples({"deleted": "alice"})

    deleted: str


def _body(model: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"required": model is NewKey, "content": json_content(model.__name__)}}


@router.get("/v1/keys", operation_id="list_keys", summary="List the API keys")
async def list_keys(
    request: Request,
    revoked: Annotated[bool, Query(description="Also the 1000 keys that were revoked last")] = False,
) -> KeyList:
    context, watcher = _get_watcher(request)
    rows = await _do(watcher.keys.read)
    stored = {row.name: _describe_stored(row) for row in rows[1]}
    found = {**stored, **{name: _describe_file_key(name, key) for name, key in watcher.file_keys.items()}}
    former = [_describe_revoked(row) for row in await _do(watcher.keys.read_revoked)] if revoked else []
    return KeyList(data=sorted([*found.values(), *former], key=lambda row: row.name))


def _check_note(note: str) -> None:
    """Raises InvalidInput for a text that PostgreSQL cannot store."""
    if "\0" in note:
        raise InvalidInput([Violation("note", "has a character U+0000, which cannot be stored: leave it out")])


@router.post(
    "/v1/keys",
    operation_id="create_key",
    summary="Create an API key",
    status_code=201,
    responses=describe(400, 422),
    openapi_extra=_body(NewKey),
)
async def create_key(request: Request) -> KeyWithSecret:
    context, watcher = _get_watcher(request)
    given = await _read(request, NewKey)
    if given.name in watcher.file_keys:
        text = f"there is a key {given.name!r} in the configuration: choose another name"
        raise InvalidInput([Violation("name", text)])
    fields, expires = _check_fields(context, given.name, given.model_dump(exclude={"name", "note"}))
    _check_note(given.note)
    key = make_key()
    made = (time.time(), name_admin(request))
    identity = os.urandom(8).hex()
    row = KeyRow(given.name, hash_key(key), fields, given.note, *made, expires_at=expires, identity=identity)
    try:
        await _do(watcher.keys.add, row)
    except KeyExists:
        text = f"there is a key {given.name!r}: choose another name, or change that key"
        raise InvalidInput([Violation("name", text)]) from None
    log_admin_action(request, "key.create", given.name, models=fields["models"], admin_key=given.admin)
    await watcher.refresh()
    return KeyWithSecret(key=key, **dict(_describe_stored(row)))


@router.get("/v1/keys/{name}", operation_id="get_key", summary="Show an API key", responses=describe(404))
async def get_key(name: str, request: Request) -> KeyInfo:
    _, watcher = _get_watcher(request)
    if name in watcher.file_keys:
        return _describe_file_key(name, watcher.file_keys[name])
    for row in (await _do(watcher.keys.read))[1]:
        if row.name == name:
            return _describe_stored(row)
    raise _unknown(name)


@router.patch(
    "/v1/keys/{name}",
    operation_id="change_key",
    summary="Change what an API key may do",
    responses=describe(400, 404, 422),
    openapi_extra=_body(ChangedKey),
)
async def change_key(name: str, request: Request) -> KeyInfo:
    context, watcher = _get_watcher(request)
    _refuse_file_key(watcher, name)
    given = await _read(request, ChangedKey)
    changes = {name: value for name, value in given.model_dump(exclude_unset=True).items() if _is_change(name, value)}

    def change(row: KeyRow) -> KeyRow:
        note = changes.get("note", row.note) or ""
        _check_note(note)
        without_users = "users" in changes and changes["users"] is None
        before = {k: v for k, v in row.settings.items() if not (without_users and k in UserSettings.model_fields)}
        fields, expires = _check_fields(context, name, {**before, **{k: v for k, v in changes.items() if k != "note"}})
        return replace(row, settings=fields, note=note, expires_at=expires if "expires" in changes else row.expires_at)

    row = await _do(watcher.keys.change, name, change)
    if row is None:
        raise _unknown(name)
    log_admin_action(request, "key.change", name, changed=sorted(changes))
    await watcher.refresh()
    return _describe_stored(row)


def _is_change(name: str, value: Any) -> bool:
    """Whether a field of a change changes anything. Raises InvalidInput for a limit that is null: it is not clear
    whether it should be removed."""
    if name in ("limits", "limits_per_user") and value is not None:
        mistakes = [Violation(f"{name}.{limit}", _NULL_LIMIT) for limit, most in value.items() if most is None]
        if mistakes:
            raise InvalidInput(mistakes)
    return value is not None or name in _REMOVABLE


@router.post(
    "/v1/keys/{name}/rotate",
    operation_id="rotate_key",
    summary="Replace an API key by a new one, with an overlap",
    responses=describe(400, 404, 422),
    openapi_extra=_body(Rotation),
)
async def rotate_key(name: str, request: Request) -> KeyWithSecret:
    _, watcher = _get_watcher(request)
    _refuse_file_key(watcher, name)
    given, key = await _read(request, Rotation), make_key()
    try:
        row = await _do(watcher.keys.rotate, name, hash_key(key), given.overlap_seconds)
    except KeyExpired:
        text = "is in the past, so the new key would always be refused: change it first, with PATCH"
        raise InvalidInput([Violation("expires", text)]) from None
    if row is None:
        raise _unknown(name)
    log_admin_action(request, "key.rotate", name, overlap_seconds=given.overlap_seconds)
    await watcher.refresh()
    return KeyWithSecret(key=key, **dict(_describe_stored(row)))


@router.delete("/v1/keys/{name}", operation_id="delete_key", summary="Revoke an API key", responses=describe(404))
async def delete_key(name: str, request: Request) -> DeletedKey:
    _, watcher = _get_watcher(request)
    _refuse_file_key(watcher, name)
    if not await _do(watcher.keys.revoke, name, name_admin(request)):
        raise _unknown(name)
    log_admin_action(request, "key.delete", name)
    await watcher.refresh()
    return DeletedKey(deleted=name)


def _get_watcher(request: Request) -> tuple[AppContext, KeyWatcher]:
    """Raises Forbidden for a caller who is no administrator, or where keys cannot be stored."""
    context = get_context(request)
    check_admin(request, context)
    if context.key_watcher is None:
        raise Forbidden("API keys cannot be stored: set state.url to a database, and restart the gateway")
    return context, context.key_watcher


def _refuse_file_key(watcher: KeyWatcher, name: str) -> None:
    if name in watcher.file_keys:
        raise Forbidden(f"the key {name!r} is in the configuration: change it there")


def _unknown(name: str) -> NotFound:
    if name.startswith(KEY_PREFIX) and len(name) == len(make_key()):
        return NotFound("there is no key of this name: give the name of the key, not the key itself")
    return NotFound(f"there is no key {name[:100]!r}")


async def _do(work: Callable[..., T], *arguments: Any) -> T:
    """Do something with the database in a thread. Raises StoreDown."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except StateError as error:
        raise StoreDown(str(error)) from None


B = TypeVar("B", bound=BaseModel)


async def _read(request: Request, model: type[B]) -> B:
    """Read the body; an empty one is an empty object. Raises BadRequest and InvalidInput."""
    raw = await request.body()
    given = parse_object(raw) if raw.strip() else {}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(to_violations(error, given, schema=model)) from None


def _check_fields(context: AppContext, name: str, given: dict[str, Any]) -> tuple[dict[str, Any], float | None]:
    """Return what a key may do as it is stored, and its expiry in Unix seconds. Raises InvalidInput."""
    fields = {key: value for key, value in given.items() if value is not None}
    try:
        key = Key.model_validate({"sha256": "0" * 64, **fields})
    except ValidationError as error:
        raise InvalidInput(to_violations(error, fields, schema=Key)) from None
    if key.expires is not None and key.expires <= datetime.now(UTC):
        raise InvalidInput([Violation("expires", "is in the past, so the key would always be refused")])
    settings = context.settings
    others = {other: row for other, row in settings.keys.items() if other != name}
    before = find_mistakes(settings.model_copy(update={"keys": others}))
    together = find_mistakes(settings.model_copy(update={"keys": {**others, name: key}}))
    if mistakes := [mistake for mistake in together if mistake not in before]:
        raise InvalidInput([Violation("", mistake) for mistake in mistakes])
    left_out = {"sha256", "expires", "previous_sha256", "previous_until"}
    if key.users is None:
        left_out |= UserSettings.model_fields.keys()
    row = key.model_dump(mode="json", exclude=left_out)
    return row, None if key.expires is None else key.expires.timestamp()


def _describe_stored(row: KeyRow) -> KeyInfo:
    key = Key.model_validate({"sha256": row.sha256, **row.settings})
    until = row.previous_until
    return _describe(
        row.name,
        "stored",
        key,
        expires=_read_time(row.expires_at),
        note=row.note,
        created=_read_time(row.created_at),
        created_by=row.created_by or None,
        last_used=_read_time(row.last_used_at),
        previous_until=_read_time(until) if until is not None and until > time.time() else None,
    )


def _describe_file_key(name: str, key: Key) -> KeyInfo:
    more: dict[str, Any] = {"note": "", "created": None, "created_by": None, "last_used": None}
    return _describe(name, "file", key, expires=key.expires, previous_until=key.previous_until, **more)


def _describe_revoked(row: RevokedKey) -> KeyInfo:
    return _describe(
        row.name,
        "stored",
        Key.model_validate({"sha256": "0" * 64, **row.settings}),
        expires=_read_time(row.expires_at),
        note=row.note,
        created=_read_time(row.created_at),
        created_by=row.created_by or None,
        last_used=_read_time(row.last_used_at),
        previous_until=None,
        revoked=_read_time(row.revoked_at),
        revoked_by=row.revoked_by,
    )


def _describe(
    name: str,
    source: str,
    key: Key,
    *,
    expires: datetime | None,
    revoked: datetime | None = None,
    revoked_by: str | None = None,
    **more: Any,
) -> KeyInfo:
    expired = expires is not None and expires <= datetime.now(UTC)
    scope = key.cache_scope or name
    return KeyInfo(
        name=name,
        source=source,
        state="revoked" if revoked is not None else "expired" if expired else "active",
        models=[*key.models],
        admin=key.admin,
        fallbacks=key.fallbacks,
        team=key.team,
        cache_scope=scope,
        limits=key.limits,
        users=key.users,
        users_required=key.users_required,
        hash_users=key.hash_users,
        limits_per_user=key.limits_per_user,
        expires=expires,
        revoked=revoked,
        revoked_by=revoked_by,
        **more,
    )


def _read_time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
