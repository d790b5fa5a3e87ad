"""`parley check-config`: report every mistake in a configuration."""

import argparse
import asyncio

from app.commands.configuration import check_tokenizers, describe_models, load_settings
from app.config.registry import targets
from app.config.settings import Settings
from app.upstream.check import check_upstreams


def run(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.file)
    check_tokenizers(settings)
    print(f"the configuration is valid; models: {', '.join(describe_models(settings))}")
    return _check_online(settings) if arguments.online else 0


def _check_online(settings: Settings) -> int:

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
