"""Reads the file of `masking.rules_file`."""

from pathlib import Path

from app.config.extras import how_to_install, is_installed
from app.guards.rules import SecretRule

MAX_BYTES = 8 * 1024 * 1024
"""The file that gitleaks comes with has 100 KB."""


def read_secret_rules(file: str) -> tuple[tuple[SecretRule, ...], list[str]]:
    """Return the rules of the file, and what is wrong with it."""
    if not is_installed("re2"):
        return (), [f"its expressions need google-re2, which is not installed: {how_to_install('guards')}"]
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        return (), [f"{file!r} cannot be read: {error.strerror}"]
    except UnicodeDecodeError:
        return (), [f"{file!r} must be text in UTF-8"]
    if len(data) > MAX_BYTES:
        return (), [f"{file!r} has more than {MAX_BYTES} bytes"]
    from app.guards.secret_rules import parse_rules  # few gateways have such a file

    rules, mistakes = parse_rules(text)
    return rules, [f"{file!r}: {mistake}" for mistake in mistakes]
