"""`parley alerts test NAME`: send a harmless alert to a receiver of the configuration."""

import argparse
import asyncio
import sys
import time
from collections import Counter

from app.alerts.conditions import make_condition
from app.alerts.receiver import NotSent, Receiver
from app.alerts.tracker import Alert
from app.commands.command_line import UsageError
from app.commands.configuration import load_settings
from app.config.alerts import list_receivers
from app.upstream.http.transport import PushTransport
from app.validation.nearest import suggest_name


def run(arguments: argparse.Namespace) -> int:
    found = {rules.name: rules for rules in list_receivers(load_settings(arguments.config))}
    rules = found.get(arguments.name)
    if rules is None:
        hint = suggest_name(arguments.name, found)
        raise UsageError(f"there is no receiver {arguments.name!r}{hint}; add [alerts.{arguments.name}]")

    async def send() -> None:
        transport = PushTransport()
        now = time.time()
        alert = Alert(make_condition("ParleyTest", {"receiver": rules.name}), now, now)
        try:
            await Receiver(rules, transport, Counter()).send([alert])
        finally:
            await transport.aclose()

    try:
        asyncio.run(send())
    except NotSent as error:
        print(f"parley: the receiver {rules.name} did not take it: {error}", file=sys.stderr)
        return 1
    print(f"{rules.name}: it took an alert ParleyTest, which is resolved already")
    return 0
