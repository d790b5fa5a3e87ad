"""What Qwen-Agent does with stop words, and where ours differ on purpose."""

import json
from pathlib import Path
from typing import Any

GOLDENS = Path(__file__).parents[1] / "goldens" / "qwen_agent"

UNITS: list[dict[str, Any]] = json.loads((GOLDENS / "unit_stop_words.json").read_text())

CUT_OTHERWISE = {"one\n\nHuman": ("one\n\nHuman", "nothing but a whole stop word is taken away")}

MERGES: list[dict[str, Any]] = json.loads((GOLDENS / "unit_generate_cfg_merge.json").read_text())

MERGED_OTHERWISE = {'{"stop": "yz"}': (["x", "yz"], "a single stop word is a word, not its letters")}
