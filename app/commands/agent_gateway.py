"""The gateway that a coding agent asks: one that runs, or one that is started for as long as the agent runs."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from app import __version__
from app.coding_agents.agent import Connection, ServedModel
from app.commands.command_line import DEFAULT_URL
from app.terminal import Gateway, RequestFailed, Unreachable

START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_PROBE_SECONDS = 5.0


class NoGateway(Exception):
    """No gateway can be used. The message is for the user."""


@contextlib.contextmanager
def find_gateway(url: str | None, key: str | None) -> Iterator[Gateway]:
    """Yield the gateway at this address. Without one, it is that of the default settings, if it runs, else one that is
    started at a free port and stopped at the end. Raises NoGateway."""
    if url is not None or is_parley(DEFAULT_URL):
        yield Gateway(url or DEFAULT_URL, key)
        return
    with _started_gateway() as started:
        yield Gateway(started, key)


def connect(gateway: Gateway, named: str | None) -> Connection:
    """Return what an agent must know of the gateway. The model is the named one, else the gateway's default, else the
    first that it lists. Raises NoGateway."""
    try:
        rows, codex_models = gateway.list_for_agents(__version__)
    except Unreachable as error:
        raise NoGateway(str(error)) from None
    except RequestFailed as error:
        hint = "" if gateway.api_key else ". If the gateway has API keys, set PARLEY_API_KEY"
        raise NoGateway(f"the gateway at {gateway.url} refused the list of its models: {error}{hint}") from None
    models = tuple(_read_model(row) for row in rows)
    base = gateway.url.rstrip("/").removesuffix("/v1")
    wanted = named or _find_default_model(base) or next((model.name for model in models), None)
    if wanted is None:
        raise NoGateway(f"the gateway at {gateway.url} lists no models: name one with --model")
    # A model behind a wildcard or a pass-through need not be listed.
    model = next((one for one in models if one.name == wanted), ServedModel(wanted))
    return Connection(base, model, models, _takes_websockets(base, gateway.api_key), tuple(codex_models))


def _read_model(row: Mapping[str, Any]) -> ServedModel:
    about = row.get("parley")
    media, hosted = (about.get(name) if isinstance(about, dict) else None for name in ("media", "hosted_tools"))
    return ServedModel(
        str(row["id"]),
        _read_number(row.get("context_window")),
        _read_number(row.get("max_tokens")),
        isinstance(media, list) and "image" in media,
        isinstance(hosted, list) and "web_search" in hosted,
    )


def _read_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def is_parley(url: str) -> bool:
    """Whether a Parley runs there: other model servers have the same default port."""
    try:
        about = httpx.get(f"{url}/healthz", timeout=_PROBE_SECONDS).json()
    except (httpx.HTTPError, ValueError, RecursionError):
        return False
    return isinstance(about, dict) and about.get("status") == "ok" and isinstance(about.get("version"), str)


def _find_default_model(base: str) -> str | None:
    """Return the gateway's default model, as it tells the playground; None if it has none or tells nothing."""
    try:
        about = httpx.get(f"{base}/playground/gateway.json", timeout=_PROBE_SECONDS).json()
    except (httpx.HTTPError, ValueError, RecursionError):
        return None
    name = about.get("default_model") if isinstance(about, dict) else None
    return name if isinstance(name, str) and name else None


def _takes_websockets(base: str, key: str | None) -> bool:
    """Whether the gateway takes Responses over a WebSocket: it is asked for one, which is closed at once."""
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "cGFybGV5LWxhdW5jaC1wcg==",
        **({"authorization": f"Bearer {key}"} if key else {}),
    }
    try:
        with httpx.stream("GET", f"{base}/v1/responses", headers=headers, timeout=_PROBE_SECONDS) as response:
            return response.status_code == 101
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def _started_gateway() -> Iterator[str]:
    """Yield the address of a gateway with the settings that `parley serve` would read here. Raises NoGateway."""
    command: Sequence[str] = (sys.executable, "-m", "app.cli", "serve", "--host", "127.0.0.1", "--port", "0")
    environ = {**os.environ, "PYTHONPATH": _join_path(os.environ.get("PYTHONPATH"))}
    environ["PARLEY_SERVER__LOG_FORMAT"] = "console"
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        # In a session of its own: Ctrl-C in the terminal is for the agent.
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield _wait_until_it_listens(process, log)
        finally:
            _stop(process)


def _join_path(given: str | None) -> str:
    root = str(Path(__file__).parents[2])
    return f"{root}{os.pathsep}{given}" if given else root


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", log: Any) -> str:
    """Return the address that it prints. Raises NoGateway with what it printed instead."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        ended = process.poll() is not None
        log.seek(0)
        printed = log.read()
        _, found, rest = printed.partition(" listens at ")
        if found and "," in rest:
            return str(rest.partition(",")[0])
        if ended or time.monotonic() > deadline:
            why = "ended" if ended else f"did not listen within {START_SECONDS:g} s"
            raise NoGateway(f"no gateway runs at {DEFAULT_URL}, and the one that was started {why}:\n{printed.strip()}")
        time.sleep(0.05)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
