"""`parley convert`: convert a conversation from one format to another."""

import argparse
import json
import sys

from app.api.convert import convert
from app.commands.command_line import UsageError
from app.errors import InvalidInput, ParleyError


def run(arguments: argparse.Namespace) -> int:
    try:
        # JSON is UTF-8, even where the terminal has another encoding.
        text = sys.stdin.buffer.read() if str(arguments.file) == "-" else arguments.file.read_bytes()
        options = {"from": arguments.source, "to": arguments.target, "strict": arguments.strict}
        result = convert(json.dumps(options | {"messages": json.loads(text)}).encode())
    except OSError as error:
        raise UsageError(f"{arguments.file}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{arguments.file}: is not valid JSON ({error})") from None
    except ParleyError as error:
        violations = error.violations if isinstance(error, InvalidInput) else ()
        for line in [f"{violation.path}: {violation.message}" for violation in violations] or [error.message]:
            print(f"parley: {line}", file=sys.stderr)
        return 1
    for warning in result["warnings"]:
        print(f"parley: {warning}", file=sys.stderr)
    print(_write_json(result["messages"]))
    return 0


def _write_json(value: object) -> str:
    """Write characters as they are, or escaped if the encoding of standard output does not have all of them."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=2)
    return text
