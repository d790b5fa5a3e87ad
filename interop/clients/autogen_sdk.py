"""AutoGen: its OpenAI client and its agents at /v1/chat/completions, and its own messages at /v1/chat."""

from importlib import import_module

from checks import check_pages, run

for checks in ("autogen_models", "autogen_native"):
    import_module(checks)
check_pages("autogen_ext")
run("autogen-agentchat")
