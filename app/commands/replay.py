"""`parley replay`: play a report of a request back, and say whether the gateway answers as it did then."""

import argparse
import asyncio
import os
import sys

import httpx

from app.commands.command_line import UsageError
from app.replay.model_server import serving
from app.replay.report import Report, ReportError, read_report
from app.replay.run import Played, play, play_against
from app.terminal.screen import replace_control_characters

_MAX_SHOWN = 2000


def run(arguments: argparse.Namespace) -> int:
    try:
        report = read_report(arguments.file)
        if arguments.serve is not None:
            asyncio.run(_serve(report, arguments.serve))
            return 0
        if arguments.against is not None:
            played = asyncio.run(play_against(report, arguments.against, os.environ.get("PARLEY_API_KEY")))
        else:
            played = asyncio.run(play(report))
    except ReportError as error:
        raise UsageError(str(error)) from None
    except (httpx.HTTPError, OSError) as error:
        print(f"parley: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return _print_result(report, played)


async def _serve(report: Report, port: int) -> None:
    async with serving(report, port) as server:
        for name, address in server.addresses.items():
            print(f"{name}: {address}", flush=True)
        await asyncio.Event().wait()


def _print_result(report: Report, played: Played) -> int:
    recorded = report.client.reply.status
    if recorded and recorded != played.status:
        print(f"the status differs: {recorded} in the report, {played.status} now")
        print(_show(played.body.decode("utf-8", "replace")))
        return 1
    if played.difference is None:
        print("the response is the same")
        return 0
    found = played.difference
    print(f"frame {found.number} differs" + (f" at {found.path}" if found.path else ""))
    print(f"in the report: {_show(found.recorded)}")
    print(f"now:           {_show(found.now)}")
    return 1


def _show(text: str | None) -> str:
    return "none" if text is None else replace_control_characters(text)[:_MAX_SHOWN]
