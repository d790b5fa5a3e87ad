"""`parley keys`: print a new API key, and manage those of a running gateway."""

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from app.access import hash_key, make_key
from app.commands.command_line import UsageError
from app.commands.confirmation import confirm
from app.config.settings import Settings
from app.terminal import Gateway, RequestFailed, Unreachable, use_color
from app.terminal.screen import format_table, replace_control_characters
from app.validation.violations import to_violations

_HEADER = ("NAME", "STATE", "SOURCE", "TEAM", "MODELS", "LIMITS", "EXPIRES", "LAST USE", "NOTE")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "new":
        return _print_new(arguments)
    try:
        return _manage(arguments, Gateway(arguments.url, os.environ.get("PARLEY_API_KEY")))
    except RequestFailed as error:
        print(f"parley: {replace_control_characters(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, Unreachable) else 1


def _print_new(arguments: argparse.Namespace) -> int:
    """Print a new key, which is stored nowhere, and the lines that make the gateway accept it."""

    key = make_key()
    sha256 = hash_key(key)
    options = {"models": arguments.models, "expires": arguments.expires, "admin": arguments.admin or None}
    row = {"sha256": sha256} | {name: value for name, value in options.items() if value is not None}
    tree = {"keys": {arguments.name: row}}
    try:
        expires = Settings.model_validate(tree).keys[arguments.name].expires
    except ValidationError as error:
        mistakes = [f"{item.path}: {item.message}" for item in to_violations(error, tree, schema=Settings)]
        raise UsageError("; ".join(mistakes)) from None
    if expires is not None and expires <= datetime.now(UTC):
        raise UsageError(f"--expires: {expires.isoformat()} is in the past, so the key would always be refused")
    lines = [f"sha256 = {json.dumps(sha256)}"]
    lines += [f"models = {json.dumps(arguments.models, ensure_ascii=False)}"] if arguments.models else []
    lines += [f"expires = {expires.isoformat()}"] if expires is not None else []
    lines += ["admin = true"] if arguments.admin else []
    header = arguments.name if re.fullmatch(r"[A-Za-z0-9_-]+", arguments.name) else json.dumps(arguments.name)
    print(f"The API key of {arguments.name}. It is shown only now:\n\n  {key}\n")
    print(f"Add these lines to parley.toml, which a running gateway then reads again:\n\n[keys.{header}]")
    print("\n".join(lines))
    if len(lines) == 1:
        print(f"\nor, without a file, set PARLEY_API_KEYS={arguments.name}:sha256:{sha256}")
    return 0


def _manage(arguments: argparse.Namespace, gateway: Gateway) -> int:
    """Raises RequestFailed and UsageError."""
    path = "/v1/keys" if arguments.action in ("list", "create") else f"/v1/keys/{quote(arguments.name, safe='')}"
    match arguments.action:
        case "list":
            _print_list(arguments, gateway.ask("GET", f"{path}?revoked=true" if arguments.revoked else path))
        case "create":
            _print_secret(arguments, gateway.ask("POST", path, _describe_new(arguments)))
        case "rotate":
            body = {"overlap_seconds": arguments.overlap}
            _print_secret(arguments, gateway.ask("POST", f"{path}/rotate", body))
        case "revoke":
            question = f"Revoke the key {arguments.name!r}? Its requests are refused from now on."
            if not confirm(question, confirmed=arguments.yes):
                return 1
            gateway.ask("DELETE", path)
            print(f"{arguments.name} is revoked")
    return 0


def _describe_new(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the body of the request for a new key. Raises UsageError."""
    names = ("name", "models", "team", "expires", "note", "users")
    fields = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return fields | {
        "admin": arguments.admin,
        "limits": _read_limits("--limit", arguments.limits),
        "users_required": arguments.users_required,
        "hash_users": arguments.hash_users,
        "limits_per_user": _read_limits("--user-limit", arguments.limits_per_user),
    }


def _read_limits(option: str, given: Sequence[str]) -> dict[str, float]:
    """Raises UsageError."""
    limits: dict[str, float] = {}
    for one in given:
        name, _, number = one.partition("=")
        try:
            limits[name] = float(number) if name.startswith("spend") else int(number)
        except ValueError:
            raise UsageError(f"{option}: must be NAME=NUMBER, such as requests_per_minute=60, not {one!r}") from None
    return limits


def _print_secret(arguments: argparse.Namespace, row: Mapping[str, Any]) -> None:
    if arguments.json:
        print(json.dumps(row, ensure_ascii=False, indent=2))
        return
    print(f"The API key of {row['name']}. It is shown only now:\n\n  {row['key']}")
    if row["previous_until"] is not None:
        print(f"\nThe key before is accepted until {row['previous_until']}.")


def _print_list(arguments: argparse.Namespace, listed: Mapping[str, Any]) -> None:
    if arguments.json:
        print(json.dumps(listed["data"], ensure_ascii=False, indent=2))
    else:
        print(
            format_table(_HEADER, [_describe(row) for row in listed["data"]], color=use_color(sys.stdout, os.environ))
        )


def _describe(row: Mapping[str, Any]) -> tuple[str, ...]:
    limits = ", ".join(f"{name}={value:g}" for name, value in row["limits"].items() if value is not None)
    return (
        row["name"] + (" (admin)" if row["admin"] else ""),
        row["state"],
        row["source"],
        row["team"] or "-",
        ", ".join(row["models"]) or "none",
        limits or "-",
        row["expires"] or "-",
        row["last_used"] or "-",
        row["note"] or "-",
    )
