"""`parley state`: migrate, back up or restore the state, and print or delete what one caller stored."""

import argparse
import base64
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from app.commands.command_line import UsageError
from app.commands.configuration import load_settings, print_config_file
from app.commands.confirmation import confirm
from app.config.request_log import open_log_file
from app.config.settings import Settings
from app.limits.spending import release_reserved
from app.limits.values import UNITS_OF_MONEY
from app.observe.request_log.entry import LoggedRequest
from app.observe.request_log.file import LogFile, LogFileError, Query
from app.state import Database, StateError, open_database
from app.state.copies import back_up, count_rows, delete_values, read_usage, read_values, restore
from app.state.migrations import VERSION
from app.state.urls import FileUrl, NoUrl, describe_state_url, parse_state_url

_REQUESTS_TOGETHER = 100


def run(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config)
    print_config_file(arguments.config)
    address = parse_state_url(settings.state.url or "null:")
    if settings.state.url is None:
        raise UsageError("stored responses are in Redis, with the cache: set state.url to a file or to PostgreSQL")
    if isinstance(address, NoUrl) or address == FileUrl(""):
        raise UsageError(
            f"state.url is {describe_state_url(address)}: it cannot be read from outside the gateway; use a file or "
            "PostgreSQL"
        )
    database = open_database(address)
    try:
        return _run(arguments, settings, database)
    except (StateError, LogFileError, OSError) as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1
    finally:
        database.close()


def _run(arguments: argparse.Namespace, settings: Settings, database: Database) -> int:
    match arguments.action:
        case "status":
            return _print_status(database)
        case "migrate":
            return _migrate(database, arguments.to, confirmed=arguments.yes)
        case "backup":
            print(f"{arguments.file}: {_describe(back_up(database, arguments.file))}")
        case "restore":
            if not confirm(f"Replace the whole state in {database.name}?", confirmed=arguments.yes):
                return 1
            print(f"{database.name}: {_describe(restore(database, arguments.file))}")
        case "export":
            _export(database, arguments.key)
            _export_requests(settings, arguments.key)
        case "delete":
            question = (
                f"Delete all responses and reasoning that the key {arguments.key!r} stored, and its logged requests?"
            )
            if not confirm(question, confirmed=arguments.yes):
                return 1
            failure = _delete_requests(settings, arguments.key)  # first: on a full disk this makes place for the rest
            print(f"{delete_values(database, _caller(arguments.key))} values deleted; totals of usage stay")
            database.empty_log()
            if failure is not None:
                raise failure
        case "release":
            return _release(database, confirmed=arguments.yes)
    return 0


def _release(database: Database, *, confirmed: bool) -> int:
    question = "Give back all reserved money? Requests in progress may then exceed their limits by what they cost."
    if not confirm(question, confirmed=confirmed):
        return 1
    lines = [f"{counter} {period}: {parts / UNITS_OF_MONEY:g}" for counter, period, parts in release_reserved(database)]
    print("\n".join(lines) or "nothing is reserved")
    return 0


def _print_status(database: Database) -> int:
    found = database.version()
    print(f"state: {database.name}, {database.kind}")
    print(f"version: {found}" + ("" if found == VERSION else f"; this Parley has {VERSION}"))
    if found == VERSION:
        print(_describe(count_rows(database)))
    return 0 if found <= VERSION else 1


def _migrate(database: Database, to: int | None, *, confirmed: bool) -> int:
    if to is not None and not 0 <= to <= VERSION:
        raise UsageError(f"--to must be a version from 0 to {VERSION}, not {to}")
    found = database.version()
    if to is not None and to < found:
        question = f"Go back from version {found} to {to}? What only newer versions have is lost: make a backup first."
        if not confirm(question, confirmed=confirmed):
            return 1
    done = database.migrate(to)
    print("\n".join(done) or f"version {found}: there is nothing to do")
    return 0


def _export(database: Database, key: str) -> None:
    for kept in read_values(database, _caller(key)):
        try:
            value = json.loads(kept.value)
        except ValueError:
            value = {"base64": base64.b64encode(kept.value).decode()}
        line = {"key": kept.key, "model": kept.model, "stored_at": kept.stored_at, "expires_at": kept.expires_at}
        print(json.dumps(line | {"value": value}, ensure_ascii=False))
    for row in read_usage(database, key):
        print(json.dumps({"usage": row}, ensure_ascii=False))


def _find_log(settings: Settings) -> LogFile | None:
    """Return the request log, if there is one: also if it is off now."""
    file = open_log_file(settings.request_log)
    return file if file is not None and Path(file.name).exists() else None


def _export_requests(settings: Settings, key: str) -> None:
    file = _find_log(settings)
    if file is None:
        return
    before: int | None = None
    while page := file.find_entries(Query(key=key, before_id=before), _REQUESTS_TOGETHER):
        for listed in page:
            before = listed.id
            entry = file.read(listed.id)
            if entry is not None:
                print(json.dumps({"request": _write_request(entry)}, ensure_ascii=False))
    file.close()


def _write_request(entry: LoggedRequest) -> Any:
    bodies = [
        {**msgspec.to_builtins(body.facts), "text": body.data.decode("utf-8", "replace")} for body in entry.bodies
    ]
    return {"id": entry.id, **msgspec.to_builtins(entry.figures), "bodies": bodies}


def _delete_requests(settings: Settings, key: str) -> LogFileError | None:
    """Return why not all could be deleted, if so."""
    file = _find_log(settings)
    if file is None:
        return None
    try:
        print(f"{file.delete(Query(key=key))} logged requests deleted")
    except LogFileError as error:
        return error
    finally:
        file.close()
    return None


def _caller(key: str) -> str:
    """Return the identity under which responses of a key are stored (`AppContext.caller_id`)."""
    return f"key {key}"


def _describe(rows: dict[str, int]) -> str:
    return ", ".join(f"{table} {count}" for table, count in rows.items())
