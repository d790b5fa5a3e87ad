"""OpenAI's SDK for Python: replies, helpers, errors."""

from importlib import import_module

from checks import check_pages, run

for checks in ("openai_replies", "openai_helpers", "openai_errors"):
    import_module(checks)
check_pages("openai")
run("openai")
