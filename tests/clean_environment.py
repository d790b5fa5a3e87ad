"""The environment of programs that tests start."""

import os


def clean_environment(**more: str) -> dict[str, str]:
    """The environment of this process without settings of Parley and of colours."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PARLEY_", "NO_COLOR"))}
    return own | more
