"""The notes of a message, which callers send and which are checked."""

from typing import Any

import pytest
from app.formats.agentscope.sidecar import AgentScopeSidecar, MediaNote
from pydantic import ValidationError

from tests.each_case import each_case

NOTE = {"at": 0, "blocks": 1, "media": "audio"}


@each_case(
    ("fields", "valid"),
    [
        ({}, True),
        ({"urls": ["UklGRg=="]}, True),
        ({"urls": ["https://h/a.wav"]}, True),
        ({"urls": ["file:///etc/passwd"]}, False),
        ({"urls": ["no base64!"]}, False),
        ({"urls": []}, False),
        ({"media": "image", "urls": ["https://h/a.png"]}, True),
        ({"media": "image", "urls": ["iVBORw0KGgo="]}, False),
        ({"media": "image", "urls": ["/etc/passwd"]}, False),
        ({"at": -1}, False),
        ({"blocks": 0}, False),
        ({"odd": 1}, False),
    ],
)
def test_media_are_urls_and_audio_may_be_base64(fields: dict[str, Any], valid: bool) -> None:
    if valid:
        MediaNote.model_validate(NOTE | fields)
    else:
        with pytest.raises(ValidationError):
            MediaNote.model_validate(NOTE | fields)


def test_notes_have_at_least_one_piece() -> None:
    notes = {"id": "1", "name": "Friday", "pieces": [{"blocks": 1, "media": [NOTE]}]}
    assert AgentScopeSidecar.model_validate(notes).pieces[0].media[0].media == "audio"
    with pytest.raises(ValidationError):
        AgentScopeSidecar.model_validate(notes | {"pieces": []})
