"""What the name of a parameter tells about its value."""

import re

from app.demo.schema import Schema, kinds

WHOLE_QUESTION = re.compile(
    r"quer|quest|text|prompt|search|input|message|content|keyword|sentence|answer|body|^q$|instruction|description",
    re.I,
)
DAY = re.compile(r"date|day|when", re.I)
LANGUAGE = re.compile(r"lang|locale", re.I)
EXPRESSION = re.compile(r"expr|formula|equation", re.I)


def is_free_text(name: str, schema: Schema) -> bool:
    """Whether a name from the question can be the value."""
    if kinds(schema) not in (["string"], ["string", "null"]) or WHOLE_QUESTION.search(name) or DAY.search(name):
        return False
    return not any(key in schema for key in ("enum", "const", "format", "pattern"))
