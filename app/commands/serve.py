"""`parley serve`: run the gateway."""

import argparse
import json
import os
import shlex
import signal
import sys
from functools import partial

from app import __version__
from app.commands.command_line import DEFAULT_URL, UsageError
from app.commands.configuration import check_tokenizers, describe_models, load_settings
from app.config.settings import Settings, SettingsError
from app.runtime.own_command import find_own_command
from app.server import process as server


def run(arguments: argparse.Namespace) -> int:
    """SIGHUP would end a process that still starts, so it waits until the server takes it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        return _run_server(arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_server(arguments: argparse.Namespace) -> int:
    for name, value in (("PARLEY_SERVER__HOST", arguments.host), ("PARLEY_SERVER__PORT", arguments.port)):
        if value is not None:
            os.environ[name] = str(value)
    if arguments.config is not None:
        os.environ["PARLEY_CONFIG"] = str(arguments.config)
    settings = load_settings()
    if settings.server.workers > 1:
        check_tokenizers(settings)  # a worker that cannot load them is started again and again
    try:
        return server.serve(settings, partial(_banner, settings))
    except server.CannotListen as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1
    except SettingsError as error:
        raise UsageError(*error.mistakes) from None


def _banner(settings: Settings, port: int) -> list[str]:
    """Return the lines that `serve` prints: the address, and commands to try."""
    host = settings.server.host
    here = _url({"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host), port)
    model = {} if settings.default_model or len(settings.models) < 2 else {"model": next(iter(settings.models))}
    question = json.dumps(model | {"messages": [{"role": "user", "content": "Hello"}]}, ensure_ascii=False)
    needs_key = settings.names_callers and not settings.server.allow_anonymous
    key = ' -H "authorization: Bearer $PARLEY_API_KEY"' if needs_key else ""
    chat = f"{find_own_command()} chat" + (f" --url {here}" if here != DEFAULT_URL else "")
    chat += f" --model {shlex.quote(model['model'])}" if model else ""
    lines = [
        f"parley {__version__} listens at {_url(host, port)}, serving {', '.join(describe_models(settings))}",
        "Try, in another terminal" + (", with your API key in PARLEY_API_KEY:" if needs_key else ":"),
        f"  curl -N {here}/v1/chat -H 'content-type: application/json'{key} -d {shlex.quote(question)}",
        f"  {chat} Hello",
        f"or open {here}/{'' if settings.server.playground else 'docs'} in a browser.",
    ]
    if not settings.upstreams:
        lines.append("For a real model server, set PARLEY_UPSTREAM_URL, for example to http://127.0.0.1:8001/v1")
    return lines


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
