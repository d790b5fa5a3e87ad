"""Load the settings for a command, and describe them in its output."""

from pathlib import Path

from app.commands.command_line import UsageError
from app.config.load import load
from app.config.registry import load_counters
from app.config.settings import Settings, SettingsError


def load_settings(file: Path | None = None) -> Settings:
    """Load the settings of this process. Raises UsageError with every mistake."""
    try:
        return load(path=file)
    except SettingsError as error:
        raise UsageError(*error.mistakes) from None


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
