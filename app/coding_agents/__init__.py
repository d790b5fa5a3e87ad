"""The coding agents that `parley launch` and `parley configure` know: what makes each of them ask a gateway.

A module for each agent has the variables, arguments and settings that it reads, and where that is written. Nothing here
starts a program or writes a file.
"""

AGENT_NAMES = ("claude", "codex", "opencode", "pi", "qwen")
"""The names of `agents.AGENTS`, for the command line, which loads nothing else of them."""
