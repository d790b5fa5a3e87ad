"""Load the settings for a command, and describe them in its output."""

import os
import sys
from pathlib import Path

from app.commands.command_line import UsageError
from app.config.load import load
from app.config.registry import load_counters
from app.config.settings import Settings, SettingsError
from app.config.sources import config_file


def load_settings(file: Path | None = None) -> Settings:
    """Load the settings of this process. Raises UsageError with every mistake."""
    try:
        return load(path=file)
    except SettingsError as error:
        raise UsageError(*error.mistakes) from None


def print_config_file(file: Path | None) -> None:
    """Print to standard error which configuration a command has read: what it shows depends on it."""
    found = config_file(os.environ, file)
    text = str(found.absolute()) if found.exists() else f"no file (there is no {found.absolute()}; see --config)"
    print(f"parley: configuration: {text}", file=sys.stderr)


def check_tokenizers(settings: Settings) -> None:
    """Load the tokenizer files that the settings name. Raises UsageError with every mistake."""
    try:
        load_counters(settings)
    except SettingsError as error:
        raise UsageError(*error.mistakes) from None


def describe_models(settings: Settings) -> list[str]:
    """Describe the models that callers may use."""
    served = list(settings.models)
    if settings.demo:
        served.append("the built-in model demo")
    if settings.passthrough:
        address = settings.upstreams[settings.passthrough].base_url.partition("?")[0]
        served.append(f"every {'other ' if served else ''}model of {address}")
    return served
