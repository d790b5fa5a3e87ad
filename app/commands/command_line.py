"""The command line of `parley`: its commands and their arguments.

Only this module is loaded for `--version`, `--help` and shell completion, so it imports nothing that takes long. What a
command does is in `app/commands`.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from app import __version__
from app.chat.messages import FormatName
from app.coding_agents import AGENT_NAMES

DEFAULT_URL = "http://127.0.0.1:8000"
"""The address of a gateway with the default settings."""

_DESCRIPTION = "An HTTP gateway in front of model servers, which translates chat formats."
EXPORT_FORMS = ("report", "har", "curl", "otel")
_CONFIG_HELP = "a configuration file instead of ./parley.toml"


class UsageError(Exception):
    """The command cannot do what was asked. Each of the lines says why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parley", description=_DESCRIPTION)
    parser.add_argument(
        "--version", action="version", version=f"parley {__version__}", help="print the version and exit"
    )
    commands = parser.add_subparsers(dest="command", required=True, title="commands", metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="run the gateway"))
    _add_chat(commands.add_parser("chat", help="ask a running gateway and show the reply as it streams"))
    _add_launch(commands.add_parser("launch", help="run a coding agent with the gateway as its model server"))
    _add_configure(commands.add_parser("configure", help="set a coding agent up for the gateway, for good"))
    _add_models(commands.add_parser("models", help="list the models of a running gateway, and what each can do"))
    _add_convert(commands.add_parser("convert", help="convert a conversation from one format to another"))
    _add_route(commands.add_parser("route", help="say which model a request for a virtual model would get"))
    _add_cache(commands.add_parser("cache", help="count or delete the cached replies"))
    _add_alerts(commands.add_parser("alerts", help="test a receiver of alerts"))
    _add_usage(commands.add_parser("usage", help="total the usage and cost by day, key, team, user, model and tag"))
    _add_state(commands.add_parser("state", help="migrate, back up or restore the state, or what one caller stored"))
    _add_requests(commands.add_parser("requests", help="list, export and delete logged requests"))
    _add_replay(commands.add_parser("replay", help="play a report of a request back, and compare the response"))
    _add_keys(commands.add_parser("keys", help="create, list, rotate and revoke the API keys of callers"))
    _add_tools(commands.add_parser("tools", help="list and call the tools of the configured MCP servers"))
    _add_import(commands.add_parser("import", help="write parley.toml from the configuration of another gateway"))
    _add_check_config(commands.add_parser("check-config", help="report every mistake in a configuration"))
    _add_doctor(
        commands.add_parser("doctor", help="check model servers, keys, models, Redis and files, and say what to do")
    )
    completion = commands.add_parser("completion", help="print the script that completes commands in your shell")
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])
    commands.add_parser("openapi", help="print the OpenAPI document")
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)
    parser.add_argument("--host", help="the address to listen on")
    parser.add_argument("--port", type=int, help="the port to listen on")


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "question",
        nargs="*",
        help="the question, in which - is replaced by standard input; without one, a conversation starts, "
        "in which each line of standard input is a question",
    )
    _add_gateway_url(parser)
    parser.add_argument("--model", help="the model (default: the gateway's default model)")
    parser.add_argument("--system", help="a system message before the conversation")
    parser.add_argument(
        "--functions",
        type=Path,
        metavar="FILE",
        help="a JSON file with functions to offer; in a conversation you enter the result of each call",
    )
    parser.add_argument(
        "--image",
        "--file",
        dest="attachments",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="an image, PDF or other file to send with the first question; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print every event as a line of JSON")
    parser.add_argument("--no-history", action="store_true", help="keep no history of what you type")


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. What stands behind `--` of `parley launch` belongs to the agent."""
    end = argv.index("--") if argv[:1] == ["launch"] and "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:end])
    arguments.program_arguments = argv[end + 1 :]
    return arguments


def _add_launch(parser: argparse.ArgumentParser) -> None:
    parser.usage = "parley launch AGENT [--model MODEL] [--url URL] [--key-env NAME] [-- ARGUMENT ...]"
    parser.description = (
        "Nothing of the agent's own settings is changed. What stands behind -- is passed on to its program. Without a "
        "running gateway, one is started for as long as the agent runs."
    )
    _add_agent(parser)


def _add_configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Only what leads the agent to the gateway is changed in its file of settings, and shown before."
    )
    _add_agent(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--dry-run", action="store_true", help="show the changes only")
    action.add_argument("--undo", action="store_true", help="put back what was there before")
    parser.add_argument(
        "--models",
        action="store_true",
        help="also write a catalogue of the gateway's models, which replaces the agent's own prompt (Codex only)",
    )
    parser.add_argument("--yes", action="store_true", help="change the file without asking for confirmation")


def _add_agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", choices=AGENT_NAMES, metavar="AGENT", help=f"one of {', '.join(AGENT_NAMES)}")
    parser.add_argument("--model", help="the model (default: the gateway's default model, else its first)")
    parser.add_argument(
        "--url",
        default=os.environ.get("PARLEY_URL"),
        help=f"the gateway's URL (default: PARLEY_URL, else {DEFAULT_URL})",
    )
    parser.add_argument(
        "--key-env",
        default="PARLEY_API_KEY",
        metavar="NAME",
        help="the variable with the API key of the gateway (default: %(default)s)",
    )


def _add_gateway_url(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", default=os.environ.get("PARLEY_URL", DEFAULT_URL), help="the gateway's URL (default: %(default)s)"
    )


def _add_models(parser: argparse.ArgumentParser) -> None:
    _add_gateway_url(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a JSON file with a list of messages; - for standard input")
    parser.add_argument(
        "--from", dest="source", default="auto", choices=["auto", *get_args(FormatName)], help="the format of FILE"
    )
    parser.add_argument("--to", dest="target", required=True, choices=get_args(FormatName), help="the format to write")
    parser.add_argument("--strict", action="store_true", help="fail if anything would be lost")


def _add_route(parser: argparse.ArgumentParser) -> None:
    parser.description = "No model is asked, and no gateway: it reads the configuration."
    parser.add_argument("file", type=Path, metavar="FILE", help="a JSON file with the body; - for standard input")
    parser.add_argument("--explain", action="store_true", help="also print every condition, and what the request has")
    parser.add_argument(
        "--format",
        default="chat_completions",
        choices=["chat_completions", "responses", "messages", "chat"],
        help="the endpoint for which the body is (default: %(default)s)",
    )
    parser.add_argument(
        "--header",
        dest="headers",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of the request; may be repeated",
    )
    parser.add_argument("--key", default="", metavar="NAME", help="the name of the API key that the request has")
    parser.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["stats", "purge"])
    parser.add_argument("--model", help="only replies of this model")
    parser.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)
    parser.add_argument("--yes", action="store_true", help="purge without asking for confirmation")


def _add_alerts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["test"])
    parser.add_argument("name", metavar="NAME", help="the name of the receiver in the configuration")
    parser.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)


def _add_usage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="first", metavar="DAY", help="the first day, in UTC (default: the last 30 days)")
    parser.add_argument("--to", dest="last", metavar="DAY", help="the last day (default: today)")
    parser.add_argument("--key", help="only requests with the API key of this name")
    parser.add_argument("--model", help="only requests for this model")
    parser.add_argument("--team", help="only requests of this team's keys")
    parser.add_argument("--user", help="only requests of this end user")
    parser.add_argument("--tag", help="only requests with this tag")
    parser.add_argument(
        "--group-by", help="day, key, team, user, model, tag, or several with commas (default: day, key and model)"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON instead of a table")
    output.add_argument("--csv", action="store_true", help="print CSV instead of a table")
    parser.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)


def _add_state(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, title="actions", metavar="ACTION")
    actions.add_parser("status", help="print the version of the tables, and how many rows each has")
    migrate = actions.add_parser("migrate", help="bring the tables to the newest version, or to another one")
    migrate.add_argument(
        "--to", type=int, metavar="VERSION", help="an older version; what only newer ones have is lost"
    )
    backup = actions.add_parser("backup", help="copy the state into a new file, while gateways use it")
    backup.add_argument("file", type=Path, metavar="FILE")
    restore = actions.add_parser("restore", help="replace the whole state by that of a backup")
    restore.add_argument("file", type=Path, metavar="FILE")
    for name, text in (("export", "print all that a caller stored, as JSON lines"), ("delete", "delete all of it")):
        owner = actions.add_parser(name, help=text)
        owner.add_argument("key", metavar="NAME", help="the name of the caller's API key")
    actions.add_parser("release", help="give back the money that killed gateways had reserved of limits of spending")
    for name, action in actions.choices.items():
        action.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)
        if name in ("migrate", "restore", "delete", "release"):
            action.add_argument("--yes", action="store_true", help="do it without asking for confirmation")


def _add_requests(parser: argparse.ArgumentParser) -> None:
    parser.description = "It reads the file of the request log, and asks no gateway."
    actions = parser.add_subparsers(dest="action", required=True, title="actions", metavar="ACTION")
    listing = actions.add_parser("list", help="list the newest requests")
    listing.add_argument("--failed", action="store_true", help="only requests that failed")
    listing.add_argument("--limit", type=int, default=20, help="how many (default: %(default)s)")
    export = actions.add_parser("export", help="print one request")
    export.add_argument("id", metavar="ID", help="the id of the entry or of the request")
    export.add_argument(
        "--as",
        dest="form",
        choices=EXPORT_FORMS,
        default="report",
        help="report is for `parley replay` and for reporting a fault (default: %(default)s)",
    )
    delete = actions.add_parser("delete", help="delete requests, and everything that only they had")
    delete.add_argument("--user", help="only requests of this end user")
    delete.add_argument("--before", metavar="DAY", help="only requests that ended before this day, in UTC")
    delete.add_argument("--all", action="store_true", help="all requests")
    delete.add_argument("--yes", action="store_true", help="do it without asking for confirmation")
    for action in (listing, delete):
        action.add_argument("--key", metavar="NAME", help="only requests with the API key of this name")
    for action in (listing, export, delete):
        action.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The model servers of the report are played on loopback, and a gateway in this process is asked the same. It "
        "prints the first frame that differs."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a report, as `parley requests export` prints it")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--against", metavar="URL", help="ask this gateway instead, with its own model servers")
    how.add_argument("--serve", type=int, metavar="PORT", help="only play the model servers, until Ctrl-C; 0: any port")


def _add_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, title="actions", metavar="ACTION")
    new = actions.add_parser("new", help="print a new key and its lines for parley.toml; no gateway is asked")
    listing = actions.add_parser("list", help="list the keys of a running gateway")
    create = actions.add_parser("create", help="create a key at a running gateway, and print it")
    rotate = actions.add_parser("rotate", help="replace a key of a running gateway by a new one, and print it")
    revoke = actions.add_parser("revoke", help="refuse a key of a running gateway from now on")
    for action in (new, create, rotate, revoke):
        action.add_argument("name", metavar="NAME", help="the name of the key: a person, a team or a program")
    for action in (new, create):
        action.add_argument(
            "--model",
            dest="models",
            action="append",
            metavar="GLOB",
            help="a model that the key may use, such as 'qwen*'; may be repeated (default: all)",
        )
        action.add_argument(
            "--expires", metavar="DATE", help="refuse the key from this day on, such as 2027-01-01 (UTC)"
        )
        action.add_argument("--admin", action="store_true", help="also allow the endpoints for administrators")
    create.add_argument("--team", help="the team of the configuration to which it belongs")
    create.add_argument("--note", help="a text for administrators")
    create.add_argument(
        "--limit",
        dest="limits",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="a limit, such as requests_per_minute=60 or spend_per_month=50; may be repeated",
    )
    create.add_argument(
        "--users", metavar="PLACE", help="where requests name their end user, such as header:x-user or metadata.user_id"
    )
    create.add_argument("--users-required", action="store_true", help="refuse replies to requests that name no user")
    create.add_argument("--hash-users", action="store_true", help="know users by a keyed hash of their name only")
    create.add_argument(
        "--user-limit",
        dest="limits_per_user",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="a limit of each user; may be repeated",
    )
    rotate.add_argument(
        "--overlap",
        type=_parse_seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long the key before is accepted too (default: not at all)",
    )
    revoke.add_argument("--yes", action="store_true", help="do it without asking for confirmation")
    listing.add_argument("--revoked", action="store_true", help="also keys that were revoked")
    for action in (listing, create, rotate):
        action.add_argument("--json", action="store_true", help="print JSON")
    for action in (listing, create, rotate, revoke):
        action.description = "It sends the administrator's key of the variable PARLEY_API_KEY."
        _add_gateway_url(action)


def _add_tools(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="start the servers and list their tools")
    listing.add_argument("server", nargs="?", help="only this server")
    listing.add_argument("--json", action="store_true", help="print JSON instead of a table")
    calling = actions.add_parser("call", help="call one tool and print its result")
    calling.add_argument("server", help="the name of the server")
    calling.add_argument("tool", help="the name of the tool at its server")
    calling.add_argument("arguments", nargs="?", default="{}", help="its arguments, a JSON object (default: {})")
    for action in (listing, calling):
        action.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.description = "What was not taken is listed, and stands in the first lines of the file."
    parser.set_defaults(module="import_config")
    parser.add_argument("program", choices=["litellm", "ccr"], help="LiteLLM, or claude-code-router")
    parser.add_argument("file", type=Path, metavar="FILE", help="its configuration: config.yaml, or config.json")
    parser.add_argument(
        "--to", type=Path, default=Path("parley.toml"), metavar="FILE", help="the file to write (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if there is one")


def _add_check_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)
    parser.add_argument("file", nargs="?", type=Path, help="the same, without --config")
    parser.add_argument(
        "--online", action="store_true", help="also check that each upstream and MCP server can be used"
    )


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)
    parser.add_argument(
        "--url",
        help="check only the model server with this base URL, such as http://127.0.0.1:8001/v1, and print the lines "
        "for parley.toml; its key is read from PARLEY_UPSTREAM_API_KEY",
    )
    parser.add_argument("--model", help="try only this model (default: every configured one)")
    parser.add_argument("--no-probes", action="store_true", help="send no requests to models; each costs some tokens")
    parser.add_argument(
        "--timeout",
        type=_parse_seconds,
        default=30.0,
        metavar="SECONDS",
        help="the limit of each check (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return seconds
