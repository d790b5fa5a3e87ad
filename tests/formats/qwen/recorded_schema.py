"""Messages that Qwen-Agent takes or refuses, and where ours differ on purpose."""

import json
from pathlib import Path

CASES = json.loads((Path(__file__).parents[2] / "goldens/qwen_agent/unit_schema.json").read_text())

LOCAL_FILE = "a path or a bare word is a file of the gateway's machine, which is never read"

STRICTER = {
    "item_image": ("content[0].image", LOCAL_FILE),
    "item_audio_str": ("content[0].audio", LOCAL_FILE),
    "item_audio_dict": ("content[0].audio", "the sound is neither a URL nor base64"),
    "item_video_list": ("content[0].video[0]", LOCAL_FILE),
    "item_video_list_any": ("content[0].video[0]", "a frame is a URL"),
    "function_without_name": ("name", "no model server takes a result of nothing"),
    "fc_not_json": ("function_call.name", "a function without a name cannot be called"),
    "fc_on_user": ("function_call", "Qwen-Agent would drop it without a word"),
}
"""Taken by Qwen-Agent, refused here: the place that is named, and why."""
