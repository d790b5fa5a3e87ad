"""The coding agents by the names that the command line takes."""

from collections.abc import Mapping

from app.coding_agents.agent import Agent
from app.coding_agents.claude import CLAUDE
from app.coding_agents.codex import CODEX
from app.coding_agents.opencode import OPENCODE
from app.coding_agents.pi import PI
from app.coding_agents.qwen import QWEN

AGENTS: Mapping[str, Agent] = {"claude": CLAUDE, "codex": CODEX, "opencode": OPENCODE, "pi": PI, "qwen": QWEN}
