"""`parley usage`: total the usage and cost by day, key, team, user, model and tag."""

import argparse
import json
import sys
import time

from app.commands.command_line import UsageError
from app.commands.configuration import load_settings, print_config_file
from app.errors import InvalidInput
from app.state import StateError, open_database
from app.state.urls import FileUrl, NoUrl, describe_state_url, parse_state_url
from app.usage.ledger import TooManyRows, UsageLedger, name_day
from app.usage.report import format_table, parse_query, report_usage, write_csv
from app.usage.store import UsageStore


def run(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config).usage
    print_config_file(arguments.config)
    address = parse_state_url(settings.url or "memory:")
    if isinstance(address, NoUrl) or address == FileUrl(""):
        raise UsageError(
            f"usage.url is {describe_state_url(address)}: it cannot be read from outside the gateway; "
            "use a file or PostgreSQL"
        )
    try:
        query = parse_query(
            name_day(time.time(), settings.zone),
            first=arguments.first,
            last=arguments.last,
            group_by=arguments.group_by,
            key=arguments.key,
            model=arguments.model,
            team=arguments.team,
            user=arguments.user,
            tag=arguments.tag,
            names=("--from", "--to", "--group-by"),
        )
    except InvalidInput as error:
        raise UsageError("; ".join(f"{item.path}: {item.message}" for item in error.violations)) from None
    try:
        ledger = UsageLedger(UsageStore(open_database(address)))
        rows = ledger.read(query)
        ledger.close()
    except (StateError, TooManyRows) as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1
    if arguments.csv:
        print(write_csv(query, rows), end="")
    elif arguments.json:
        print(json.dumps(report_usage(query, rows), ensure_ascii=False, indent=2))
    else:
        print(f"usage: {describe_state_url(address)}, {query.first_day} to {query.last_day} ({settings.time_zone})")
        print(format_table(query, rows))
    return 0
