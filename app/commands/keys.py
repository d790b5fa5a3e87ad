"""`parley keys new NAME`: create an API key for a caller."""

import argparse
import json
import re
from datetime import UTC, datetime

from pydantic import ValidationError

from app.access import hash_key, make_key
from app.commands.command_line import UsageError
from app.config.settings import Settings
from app.validation.violations import to_violations


def run(arguments: argparse.Namespace) -> int:
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
