"""JSON Schema's own tests of validators, from the folder that JSON_SCHEMA_TEST_SUITE names: `tests` of the repository
JSON-Schema-Test-Suite, or `json/tests` of jsonschema's sdist."""

import json
import os
from pathlib import Path

import pytest
from app.steps.json_schema import Unchecked, validate

SUITE = os.environ.get("JSON_SCHEMA_TEST_SUITE")
DRAFTS = {
    "draft3": "http://json-schema.org/draft-03/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
UNCHECKED = ("Unresolvable",)
"""References to other documents."""
OTHER_META_SCHEMA = "schema that uses custom metaschema with with no validation vocabulary"
"""Of a draft of its own, which nothing fetches: the schema is read as one of 2020-12."""

pytestmark = pytest.mark.skipif(SUITE is None, reason="JSON_SCHEMA_TEST_SUITE names no folder")


@pytest.mark.parametrize("draft", DRAFTS)
def test_json_schemas_own_tests(draft: str) -> None:
    wrong, checked = [], 0
    for path in sorted((Path(SUITE or "") / draft).glob("*.json")):
        for group in json.loads(path.read_text()):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            for case in group["tests"]:
                try:
                    is_valid = not validate(case["data"], schema, 100_000)
                except Unchecked as error:
                    if not any(reason in str(error) for reason in UNCHECKED):
                        wrong.append(f"{path.name}: {group['description']}: {error}")
                    continue
                checked += 1
                if is_valid is not case["valid"] and group["description"] != OTHER_META_SCHEMA:
                    wrong.append(f"{path.name}: {group['description']}: {case['description']}")
    assert not wrong
    assert checked > 400
