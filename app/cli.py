"""The command line: parley serve | chat | convert | cache | usage | keys | check-config | openapi."""

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from app import __version__
from app.format_names import FormatName
from app.settings import Settings, SettingsError, load

DEFAULT_URL = "http://127.0.0.1:8000"
"""The address of a gateway with the default settings."""
if TYPE_CHECKING:
    from app.cache.urls import CacheUrl


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return _COMMANDS[arguments.command](arguments)
    except SettingsError as error:
        for mistake in error.mistakes:
            print(f"parley: {mistake}", file=sys.stderr)
        return 2
    except _UsageError as error:
        print(f"parley: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


class _UsageError(Exception):
    """The command line cannot be obeyed; the message says why."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parley", description="An HTTP gateway that translates chat formats.")
    parser.add_argument("--version", action="version", version=f"parley {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar=" | ".join(_COMMANDS))
    serve = commands.add_parser("serve", help="run the gateway")
    serve.add_argument("--config", type=Path, help="a configuration file instead of ./parley.toml")
    serve.add_argument("--host", help="the address to listen on")
    serve.add_argument("--port", type=int, help="the port to listen on")
    chat = commands.add_parser("chat", help="ask a running gateway and show the reply as it streams")
    chat.add_argument("question", nargs="*", help="the question; without one, an interactive conversation starts")
    chat.add_argument(
        "--url", default=os.environ.get("PARLEY_URL", DEFAULT_URL), help="the gateway's URL (default: %(default)s)"
    )
    chat.add_argument("--model", help="the model (default: the gateway's default model)")
    chat.add_argument("--functions", type=Path, metavar="FILE", help="a JSON file with functions to offer")
    chat.add_argument("--system", help="a system message before the question")
    chat.add_argument("--json", action="store_true", help="print every event as a line of JSON")
    convert = commands.add_parser("convert", help="convert a conversation from one format to another")
    convert.add_argument("file", type=Path, help="a JSON file with a list of messages; - for standard input")
    convert.add_argument(
        "--from", dest="source", default="auto", choices=["auto", *get_args(FormatName)], help="the format of FILE"
    )
    convert.add_argument("--to", dest="target", required=True, choices=get_args(FormatName), help="the format to write")
    convert.add_argument("--strict", action="store_true", help="fail if anything would be lost")
    cache = commands.add_parser("cache", help="count or delete the cached replies")
    cache.add_argument("action", choices=["stats", "purge"])
    cache.add_argument("--model", help="only replies of this model")
    cache.add_argument("--config", type=Path, help="a configuration file instead of ./parley.toml")
    cache.add_argument("--yes", action="store_true", help="purge without asking for confirmation")
    usage = commands.add_parser("usage", help="total the usage and cost by day, key and model")
    usage.add_argument("--from", dest="first", metavar="DAY", help="the first day, in UTC (default: the last 30 days)")
    usage.add_argument("--to", dest="last", metavar="DAY", help="the last day (default: today)")
    usage.add_argument("--key", help="only requests with the API key of this name")
    usage.add_argument("--model", help="only requests for this model")
    usage.add_argument("--group-by", help="day, key, model, or several with commas (default: all of them)")
    usage.add_argument("--json", action="store_true", help="print JSON instead of a table")
    usage.add_argument("--config", type=Path, help="a configuration file instead of ./parley.toml")
    keys = commands.add_parser("keys", help="create an API key for a caller")
    keys.add_argument("action", choices=["new"])
    keys.add_argument("name", metavar="NAME", help="the name of the key: a person, a team or a program")
    keys.add_argument(
        "--model",
        dest="models",
        action="append",
        metavar="GLOB",
        help="a model that the key may use, such as 'qwen*'; may be repeated (default: all)",
    )
    keys.add_argument("--expires", metavar="DATE", help="refuse the key from this day on, such as 2027-01-01 (UTC)")
    keys.add_argument("--admin", action="store_true", help="also allow the endpoints for administrators")
    check = commands.add_parser("check-config", help="report every mistake in a configuration")
    check.add_argument("file", nargs="?", type=Path, help="the file to check instead of PARLEY_CONFIG or ./parley.toml")
    check.add_argument("--online", action="store_true", help="also check that each upstream can be reached")
    commands.add_parser("openapi", help="print the OpenAPI document")
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    """Run the gateway. SIGHUP would end a process that still starts, so it waits until the server takes it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        return _run_server(arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_server(arguments: argparse.Namespace) -> int:
    from app.server import CannotListen, serve

    for name, value in (("PARLEY_SERVER__HOST", arguments.host), ("PARLEY_SERVER__PORT", arguments.port)):
        if value is not None:
            os.environ[name] = str(value)
    if arguments.config is not None:
        os.environ["PARLEY_CONFIG"] = str(arguments.config)
    settings = load()
    try:
        return serve(settings, partial(_banner, settings))
    except CannotListen as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1


def _banner(settings: Settings, port: int) -> list[str]:
    """Return the lines that `serve` prints: the address, and commands to try."""
    host = settings.server.host
    here = _url({"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host), port)
    model = {} if settings.default_model or len(settings.models) < 2 else {"model": next(iter(settings.models))}
    question = json.dumps(model | {"messages": [{"role": "user", "content": "Hello"}]}, ensure_ascii=False)
    needs_key = bool(settings.keys) and not settings.server.allow_anonymous
    key = ' -H "authorization: Bearer $PARLEY_API_KEY"' if needs_key else ""
    chat = f"{_command()} chat" + (f" --url {here}" if here != DEFAULT_URL else "")
    chat += f" --model {shlex.quote(model['model'])}" if model else ""
    lines = [
        f"parley {__version__} listens at {_url(host, port)}, serving {', '.join(_describe_models(settings))}",
        "Try, in another terminal" + (", with your API key in PARLEY_API_KEY:" if needs_key else ":"),
        f"  curl -N {here}/v1/chat -H 'content-type: application/json'{key} -d {shlex.quote(question)}",
        f"  {chat} Hello",
        f"or open {here}/docs in a browser.",
    ]
    if not settings.upstreams:
        lines.append("For a real model server, set PARLEY_UPSTREAM_URL, for example to http://127.0.0.1:8001/v1")
    return lines


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _command() -> str:
    """Return the command that starts this program from the current directory."""
    program = Path(sys.argv[0])
    if program.name != "parley" or shutil.which("parley") == str(program):
        return "parley"
    try:
        return shlex.quote(str(program.absolute().relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(program))


def _describe_models(settings: Settings) -> list[str]:
    """Describe the models that callers may use."""
    served = list(settings.models)
    if settings.demo:
        served.append("the built-in model demo")
    if settings.passthrough:
        served.append(f"every {'other ' if served else ''}model of {settings.upstreams[settings.passthrough].base_url}")
    return served


def _chat(arguments: argparse.Namespace) -> int:
    from app import terminal

    if arguments.system and not arguments.question:
        raise _UsageError("--system needs a question on the command line")
    options: dict[str, Any] = {
        "model": arguments.model,
        "functions": _functions(arguments.functions) if arguments.functions else None,
        "api_key": os.environ.get("PARLEY_API_KEY"),
        "out": sys.stdout,
        "err": sys.stderr,
        "color": sys.stdout.isatty() and "NO_COLOR" not in os.environ,
    }
    options["as_json"] = arguments.json
    if not arguments.question:
        return terminal.repl(arguments.url, **options)
    messages: list[dict[str, Any]] = [{"role": "user", "content": " ".join(arguments.question)}]
    if arguments.system:
        messages.insert(0, {"role": "system", "content": arguments.system})
    return terminal.chat(arguments.url, messages, **options)


def _convert(arguments: argparse.Namespace) -> int:
    from app.api.convert import convert
    from app.errors import InvalidInput, ParleyError

    try:
        text = sys.stdin.read() if str(arguments.file) == "-" else arguments.file.read_text(encoding="utf-8")
        options = {"from": arguments.source, "to": arguments.target, "strict": arguments.strict}
        result = convert(json.dumps(options | {"messages": json.loads(text)}).encode())
    except OSError as error:
        raise _UsageError(f"{arguments.file}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise _UsageError(f"{arguments.file}: is not valid JSON ({error})") from None
    except ParleyError as error:
        violations = error.violations if isinstance(error, InvalidInput) else ()
        for line in [f"{violation.path}: {violation.message}" for violation in violations] or [error.message]:
            print(f"parley: {line}", file=sys.stderr)
        return 1
    for warning in result["warnings"]:
        print(f"parley: {warning}", file=sys.stderr)
    print(json.dumps(result["messages"], ensure_ascii=False, indent=2))
    return 0


def _cache(arguments: argparse.Namespace) -> int:
    from app.cache.report import count_replies, describe_cache, purge_cache
    from app.cache.stores import StoreError
    from app.cache.urls import MemoryUrl, NullUrl, parse_cache_url

    url = load(path=arguments.config).cache.url or "memory:"
    address = parse_cache_url(url)
    if isinstance(address, MemoryUrl | NullUrl):
        raise _UsageError(
            f"the cache is {address.kind}: it cannot be read from outside the gateway; use a file or Redis (cache.url)"
        )
    purge = arguments.action == "purge"
    if purge and not arguments.yes and not sys.stdin.isatty():
        raise _UsageError("purge asks for confirmation and standard input is not a terminal: use --yes to purge")
    try:
        if purge and not arguments.yes and not _confirm(asyncio.run(count_replies(url, arguments.model)), address):
            print("parley: nothing was deleted", file=sys.stderr)
            return 1
        print(asyncio.run((purge_cache if purge else describe_cache)(url, arguments.model)))
    except StoreError as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1
    return 0


def _confirm(count: int, address: "CacheUrl") -> bool:
    """Ask at the terminal whether to delete these replies."""
    from app.cache.urls import describe_url

    print(
        f"Delete {count} replies from the cache: {describe_url(address)}? [y/N] ", end="", file=sys.stderr, flush=True
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _usage(arguments: argparse.Namespace) -> int:
    import time

    from app.errors import InvalidInput
    from app.usage.ledger import TooManyRows, UsageLedger, utc_day
    from app.usage.report import format_table, parse_query, report_usage
    from app.usage.stores import UsageStoreError, open_usage_store
    from app.usage.urls import FileUrl, NoUrl, describe_usage_url, parse_usage_url

    address = parse_usage_url(load(path=arguments.config).usage.url or "memory:")
    if isinstance(address, NoUrl) or address == FileUrl(""):
        raise _UsageError(
            f"usage.url is {describe_usage_url(address)}: it cannot be read from outside the gateway; "
            "use a file or PostgreSQL"
        )
    try:
        query = parse_query(
            utc_day(time.time()),
            first=arguments.first,
            last=arguments.last,
            group_by=arguments.group_by,
            key=arguments.key,
            model=arguments.model,
            names=("--from", "--to", "--group-by"),
        )
    except InvalidInput as error:
        raise _UsageError("; ".join(f"{item.path}: {item.message}" for item in error.violations)) from None
    try:
        ledger = UsageLedger(open_usage_store(address))
        rows = ledger.read(query)
        ledger.close()
    except (UsageStoreError, TooManyRows) as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(report_usage(query, rows), ensure_ascii=False, indent=2))
    else:
        print(f"usage: {describe_usage_url(address)}, {query.first_day} to {query.last_day} (UTC)")
        print(format_table(query, rows))
    return 0


def _functions(file: Path) -> list[dict[str, Any]]:
    try:
        functions = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _UsageError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise _UsageError(f"{file}: is not valid JSON ({error})") from None
    if not isinstance(functions, list):
        raise _UsageError(f"{file}: must be a list of functions")
    return functions


def _keys(arguments: argparse.Namespace) -> int:
    """Print a new key, which is stored nowhere, and the lines that make the gateway accept it."""
    from pydantic import ValidationError

    from app.access import hash_key, make_key
    from app.validation import to_violations

    key = make_key()
    sha256 = hash_key(key)
    options = {"models": arguments.models, "expires": arguments.expires, "admin": arguments.admin or None}
    row = {"sha256": sha256} | {name: value for name, value in options.items() if value is not None}
    tree = {"keys": {arguments.name: row}}
    try:
        Settings.model_validate(tree)
    except ValidationError as error:
        mistakes = [f"{item.path}: {item.message}" for item in to_violations(error, tree, schema=Settings)]
        raise _UsageError("; ".join(mistakes)) from None
    lines = [f"sha256 = {json.dumps(sha256)}"]
    lines += [f"models = {json.dumps(arguments.models, ensure_ascii=False)}"] if arguments.models else []
    lines += [f"expires = {arguments.expires}"] if arguments.expires else []
    lines += ["admin = true"] if arguments.admin else []
    header = arguments.name if re.fullmatch(r"[A-Za-z0-9_-]+", arguments.name) else json.dumps(arguments.name)
    print(f"The API key of {arguments.name}. It is shown only now:\n\n  {key}\n")
    print(f"Add these lines to parley.toml, which a running gateway then reads again:\n\n[keys.{header}]")
    print("\n".join(lines))
    if len(lines) == 1:
        print(f"\nor, without a file, set PARLEY_API_KEYS={arguments.name}:sha256:{sha256}")
    return 0


def _check_config(arguments: argparse.Namespace) -> int:
    settings = load(path=arguments.file)
    print(f"the configuration is valid; models: {', '.join(_describe_models(settings))}")
    return _check_online(settings) if arguments.online else 0


def _check_online(settings: Settings) -> int:
    from app.model_registry import targets
    from app.upstream.check import check_upstreams

    models = {
        name: [
            row.name or model
            for model, row in settings.models.items()
            if any(upstream.name == name for upstream in row.upstreams)
        ]
        for name in settings.upstreams
    }
    reports = asyncio.run(check_upstreams(targets(settings).values(), models))
    for report in reports:
        print("\n".join(report.lines))
    return 0 if all(report.works for report in reports) else 1


def _openapi(arguments: argparse.Namespace) -> int:
    from app.main import create_app

    document = create_app(Settings(demo=True)).openapi()
    print(json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True))
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "chat": _chat,
    "convert": _convert,
    "cache": _cache,
    "usage": _usage,
    "keys": _keys,
    "check-config": _check_config,
    "openapi": _openapi,
}


if __name__ == "__main__":
    sys.exit(main())
