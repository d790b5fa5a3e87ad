from typing import Any

from app.config.references import find_dangling
from app.config.registry import ModelRegistry
from app.config.settings import Settings

from tests.each_case import each_case


def tree(**text: Any) -> dict[str, Any]:
    return {
        "upstreams": {"up": {"base_url": "http://x/v1", "kind": "vllm"}},
        "models": {
            "text": {"upstreams": ["up"], "profile": {"media": []}, **text},
            "vl": {"upstreams": ["up"], "profile": {"media": ["image", "audio", "file"]}},
            "auto": {"use": "text"},
            "other": {"upstreams": ["up"], "describe_media_with": "vl"},
        },
    }


@each_case(("name", "right"), [("vl", True), ("nobody", False), ("auto", False), ("other", False), ("text", False)])
def test_media_are_described_by_a_model_that_sees_itself(name: str, right: bool) -> None:
    found = find_dangling(tree(describe_media_with=name))
    assert [one.partition(":")[0] for one in found] == ([] if right else ["models.text.describe_media_with"])


@each_case(("reads_files", "described"), [(True, ("image", "audio")), (False, ("image", "audio", "file"))])
def test_files_that_become_text_are_not_described(reads_files: bool, described: tuple[str, ...]) -> None:
    settings = tree(describe_media_with="vl", profile={"media": [], "file_text": reads_files})
    route = ModelRegistry(Settings.model_validate(settings), None).find("text")
    assert route is not None and (route.describe_with, route.described) == ("vl", described)
