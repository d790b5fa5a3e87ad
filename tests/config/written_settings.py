"""Settings of a `parley.toml` that a test writes into the working folder."""

from pathlib import Path

import pytest
from app.config.load import load
from app.config.settings import Settings, SettingsError

LOCAL = '[upstreams.local]\nbase_url = "http://127.0.0.1:1/v1"\n'
ONE_MODEL = LOCAL + '[models.m]\nupstreams = ["local"]\n'


def written(text: str, **environ: str) -> Settings:
    Path("parley.toml").write_text(text, encoding="utf-8")
    return load(environ)


def mistakes(text: str, **environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        written(text, **environ)
    assert str(caught.value) == "\n".join(caught.value.mistakes)
    return caught.value.mistakes
