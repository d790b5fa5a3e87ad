"""Texts as Qwen-Agent counts and shortens them."""

import json
from pathlib import Path
from typing import Any

UNITS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "goldens" / "qwen_agent" / "unit_tokenizer.json").read_text()
)
