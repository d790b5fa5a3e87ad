"""Where the recorded replies of real servers are: they belong to others and are never committed."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("PARLEY_STREAMS") or ROOT.parent / "shared" / "streams")

RECORDINGS = sorted(path for path in FOLDER.glob("*/*") if path.suffix in (".sse", ".json"))
"""Every recorded file; empty when the folder is absent."""

needs_recordings = pytest.mark.skipif(
    not RECORDINGS, reason=f"no recorded streams in {FOLDER}: set PARLEY_STREAMS to their folder"
)
