"""`parley requests`: list, export and delete logged requests."""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from app.commands.command_line import UsageError
from app.commands.configuration import load_settings
from app.commands.confirmation import confirm
from app.config.request_log import open_log_file
from app.config.settings import Settings
from app.observe.request_log.entry import LoggedRequest
from app.observe.request_log.file import LogFile, LogFileError, Query, name_entry
from app.terminal import use_color
from app.terminal.screen import format_table

_HEADER = ("ID", "TIME", "ENDPOINT", "MODEL", "KEY", "STATUS", "ERROR", "SECONDS", "REQUEST")


def run(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config)
    file = open_log_file(settings.request_log)
    if file is None:
        raise UsageError("there is no file of the request log: set request_log.url")
    if not Path(file.name).exists():
        print(f"no requests are logged: there is no file {file.name}")
        return 0
    try:
        match arguments.action:
            case "list":
                return _list(file, arguments)
            case "export":
                return _export(file, arguments, settings)
            case _:
                return _delete(file, arguments)
    except LogFileError as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1
    finally:
        file.close()


def _list(file: LogFile, arguments: argparse.Namespace) -> int:
    query = Query(key=arguments.key, failed=True if arguments.failed else None)
    found = file.find_entries(query, max(1, arguments.limit))
    if not found:
        print("no requests are logged")
        return 0
    print(format_table(_HEADER, [_write_row(entry) for entry in found], color=use_color(sys.stdout, os.environ)))
    return 0


def _write_row(entry: LoggedRequest) -> tuple[str, ...]:
    figures = entry.figures
    return (
        str(entry.id),
        datetime.fromtimestamp(figures.started_at, UTC).isoformat(sep=" ", timespec="seconds"),
        *(figures.endpoint, figures.model, figures.key, str(figures.status), figures.error or ""),
        f"{figures.seconds:.3f}",
        figures.request_id,
    )


def _export(file: LogFile, arguments: argparse.Namespace, settings: Settings) -> int:
    from app.api.logged_exports import export  # the other actions need nothing of the gateway

    found = file.find_entries(name_entry(arguments.id), 1)
    entry = file.read(found[0].id) if found else None
    if entry is None:
        print(f"parley: no request {arguments.id!r} is logged", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(export(entry, arguments.form, settings))
    return 0


def _delete(file: LogFile, arguments: argparse.Namespace) -> int:
    query = Query(key=arguments.key, user=arguments.user, until=_read_day(arguments.before))
    if query == Query() and not arguments.all:
        raise UsageError("name what to delete: --key, --user, --before, or --all")
    if not confirm(f"Delete these requests from {file.name}?", confirmed=arguments.yes):
        return 1
    print(f"{file.delete(query)} requests deleted")
    return 0


def _read_day(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise UsageError(f"--before must be a day such as 2026-11-30, not {text!r}") from None
