"""Where the keys for model servers come from that are renewed while the gateway runs, from the settings."""

import os
from collections.abc import Mapping

from app.config.child_environment import make_child_environment
from app.config.settings import Settings
from app.upstream.credentials import CredentialSource


def list_credential_sources(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> dict[str, CredentialSource]:
    """Return where the keys that are renewed come from, by upstream."""
    environ = os.environ if environ is None else environ
    found: dict[str, CredentialSource] = {}
    for name, row in settings.upstreams.items():
        if row.api_key_command is not None:
            variables = make_child_environment(environ, row.api_key_env_vars)
            found[name] = CredentialSource(
                row.api_key_command, environ=tuple(sorted(variables.items())), life_seconds=row.api_key_seconds
            )
        elif row.api_key_file is not None:
            found[name] = CredentialSource(file=row.api_key_file)
    return found
