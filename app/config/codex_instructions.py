"""Reads the file of `agents.codex_instructions`."""

from pathlib import Path

from app.config.tables.agents import AgentSettings

MAX_BYTES = 64 * 1024
"""Codex's own text has about 17 KB, and each model's entry in the list repeats it."""


def read_codex_instructions(agents: AgentSettings) -> str | None:
    """Return the text of the file; None if the settings name none. Raises ValueError with the reason."""
    file = agents.codex_instructions
    if file is None:
        return None
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ValueError(f"{file!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file!r} must be text in UTF-8") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"{file!r} has more than {MAX_BYTES} bytes")
    if not text.strip():
        raise ValueError(f"{file!r} is empty, and Codex would work without a system prompt")
    return text
