"""`parley configure`: change a coding agent's own file of settings so that it always asks the gateway, or change it
back."""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from app.coding_agents.agent import Agent, Connection, SettingsFile, matches
from app.coding_agents.agents import AGENTS
from app.coding_agents.settings_text import (
    ABSENT,
    Keys,
    UnchangeableText,
    change_text,
    find_value,
    json_text,
    parse_text,
)
from app.commands.agent_gateway import NoGateway, connect
from app.commands.command_line import DEFAULT_URL, UsageError
from app.commands.confirmation import confirm
from app.terminal import Gateway
from app.terminal.line_reader import find_history_file
from app.terminal.screen import replace_control_characters

_MAX_SHOWN = 200


def run(arguments: argparse.Namespace) -> int:
    record = _Record(_find_record(arguments.agent))
    try:
        if arguments.undo:
            return _undo(arguments, record)
        return _configure(arguments, record)
    except NoGateway as error:
        print(f"parley: {replace_control_characters(str(error))}", file=sys.stderr)
        return 1


def _configure(arguments: argparse.Namespace, record: "_Record") -> int:
    key = os.environ.get(arguments.key_env) or None
    agent = AGENTS[arguments.agent]
    connection = connect(Gateway(arguments.url or DEFAULT_URL, key), arguments.model)
    wanted = agent.make_settings(connection, arguments.key_env if key else None, os.environ)
    if arguments.models:
        wanted = _add_models(agent, connection, wanted)
    file = wanted.path
    text = _read(file)
    try:
        before = record.restore(file, text)
        after = change_text(before or "", wanted.syntax, wanted.values)
    except UnchangeableText as error:
        raise UsageError(f"{file} cannot be changed: {error}. It needs:", *_list_values(wanted.values)) from None
    new_files = {one: own for one, own in wanted.beside.items() if _read(one) != own}
    _show_changes(file, wanted.syntax, text, after, {**record.values, **wanted.values})
    for one in new_files:
        print(f"{one}: {len(connection.codex_models)} models")
    for warning in wanted.warnings:
        print(f"parley: {warning}", file=sys.stderr)
    for name in sorted(name for name in os.environ if matches(name, agent.bypassing)):
        print(f"parley: the variable {name} is set and wins over the file: unset it", file=sys.stderr)
    if arguments.dry_run or (after == text and not new_files):
        return 0
    if not confirm(f"Change {file}?", confirmed=arguments.yes):
        return 1
    if record.file == file:
        record.remove_files(but=wanted.beside)
    record.write(wanted, before, after)
    for one, own in wanted.beside.items():
        _write(one, own)
    _write(file, after)
    return 0


def _add_models(agent: Agent, connection: Connection, settings: SettingsFile) -> SettingsFile:
    """Return settings that describe the models of the gateway. Raises UsageError and NoGateway."""
    if agent.add_models is None:
        raise UsageError(f"{agent.title} reads no catalogue of models: leave out --models")
    if not connection.codex_models:
        raise NoGateway(f"the gateway at {connection.url} does not describe its models (agents.codex_models)")
    return agent.add_models(connection, settings)


def _undo(arguments: argparse.Namespace, record: "_Record") -> int:
    if record.file is None:
        print(f"parley: nothing to undo: {arguments.agent} was not configured by this program", file=sys.stderr)
        return 1
    text = _read(record.file)
    try:
        before = record.restore(record.file, text)
    except UnchangeableText as error:
        raise UsageError(f"{record.file} cannot be changed: {error}") from None
    _show_changes(record.file, record.syntax, text, before or "", dict.fromkeys(record.values))
    if not confirm(f"Change {record.file} back?", confirmed=arguments.yes):
        return 1
    if before is None:
        record.file.unlink(missing_ok=True)
    else:
        _write(record.file, before)
    record.remove_files()
    record.remove()
    return 0


def _find_record(agent: str) -> Path:
    history = find_history_file(os.environ)
    if history is None:
        raise UsageError("neither HOME nor XDG_STATE_HOME names a folder, so what is changed could not be undone")
    return history.parent / "configured" / f"{agent}.json"


class _Record:
    """What was changed in an agent's file, kept so that it can be undone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = _read(path)
        row: dict[str, Any] = {} if text is None else json.loads(text)
        self.file = Path(row["file"]) if row else None
        self.syntax = row.get("syntax", "json")
        self.values: dict[Keys, Any] = {tuple(keys): value for keys, value in row.get("values", [])}
        """What was written."""
        self._before: str | None = row.get("before")
        self._after: str | None = row.get("after")
        self._beside: dict[str, str] = row.get("beside", {})
        """The SHA-256 of each other file that was written."""

    def restore(self, file: Path, text: str | None) -> str | None:
        """Return the text of the file as it would be without the change; None: without a file. Values that someone
        has changed since stay. Raises UnchangeableText."""
        if file != self.file or text is None:
            return text
        if text == self._after:
            return self._before
        now, earlier = parse_text(text, self.syntax), parse_text(self._before or "", self.syntax)
        unchanged = [keys for keys, own in self.values.items() if json_text(find_value(now, keys)) == json_text(own)]
        return change_text(text, self.syntax, {keys: find_value(earlier, keys) for keys in unchanged})

    def write(self, wanted: SettingsFile, before: str | None, after: str) -> None:
        row = {
            "file": str(wanted.path),
            "syntax": wanted.syntax,
            "values": [*map(list, wanted.values.items())],
            "before": before,
            "after": after,
            "beside": {str(path): _hash(text) for path, text in wanted.beside.items()},
        }
        _write(self._path, json.dumps(row))

    def remove_files(self, but: Collection[Path] = ()) -> None:
        """Remove the other files that were written, unless someone has changed them since."""
        for name, sha256 in self._beside.items():
            path = Path(name)
            text = None if path in but else _read(path)
            if text is not None and _hash(text) == sha256:
                path.unlink()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(file: Path) -> str | None:
    """Return the text of a file with the ends of lines that it has."""
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None


def _write(file: Path, text: str) -> None:
    """Replace the text of a file, also behind a link; a new file can be read by its user only. It is never half
    written."""
    file = file.resolve()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", dir=file.parent, delete=False) as new:
            new.write(text)
        Path(new.name).chmod(mode)
        Path(new.name).replace(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}") from None


def _show_changes(file: Path, syntax: Any, text: str | None, after: str, keys: Mapping[Keys, Any]) -> None:
    old, new = parse_text(text or "", syntax), parse_text(after, syntax)
    print(f"{file}:")
    changes = [(one, find_value(old, one), find_value(new, one)) for one in keys]
    changes = [(one, was, now) for one, was, now in changes if json_text(was) != json_text(now)]
    for one, was, now in changes:
        if was is not ABSENT:
            print(f"  - {_describe(one, _hide_secret(one, was))}")
        if now is not ABSENT:
            print(f"  + {_describe(one, now)}")
    if not changes:
        print("  nothing to change")


def _hide_secret(keys: Keys, value: Any) -> Any:
    """Return what is shown of a value that may be, or have, the user's key for another server."""
    return "…" if isinstance(value, dict) or re.search("key|token|secret", keys[-1], re.IGNORECASE) else value


def _list_values(values: Mapping[Keys, Any]) -> list[str]:
    return [f"  {_describe(keys, value)}" for keys, value in values.items()]


def _describe(keys: Keys, value: Any) -> str:
    text = f"{'.'.join(keys)} = {json.dumps(value, ensure_ascii=False, default=str)}"
    return replace_control_characters(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")
