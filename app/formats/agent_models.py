"""The list of models in the forms that coding agents read, beside the list of OpenAI's and Anthropic's SDKs.

Codex asks for `GET /v1/models?client_version=…` and reads `models`. One entry that it cannot parse empties its list, so
an entry has every field that any of its versions needs, and only words that all of them know (Codex 0.130 and 0.171).
Claude Code keeps ids that contain "claude"; before version 2.1.223, ids that begin with it.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec import Struct

CLAUDE_ID = "claude-parley-"
"""The id of a model for Claude Code is this and the model's name."""
_CLAUDE_AGENTS = (b"claude-code/", b"claude-cli/")
"""Claude Code lists models with the first, and asks for replies with the second."""
_CLAUDE_NAMES = ("claude", "anthropic")

MAX_ENTRIES = 500
_USUAL_REPLY_TOKENS = 8192
"""The longest reply of a model of which it is not known."""

INSTRUCTIONS = """\
You are a coding agent. You work in the user's repository on the user's computer, with the tools that this request \
offers, and you go on until the task is done.

How to work
- Read before you write: find the files that matter, and learn how the project is built, tested and laid out. Obey \
files such as AGENTS.md, CONTRIBUTING.md and README.md; what the user says comes before them.
- Never guess what a tool can show you. Do not invent files, functions, options or results.
- Make the smallest change that solves the task at its cause. Follow the style of the code around it. Leave code, \
comments and files alone that the task does not concern, and add no dependency without need.
- The user may have changes that are not committed. Never undo, overwrite or commit them unless you are asked to.
- If a step may destroy data or reach beyond the repository, ask first, unless the user has already agreed.
- For a task of several steps, write down a short plan first, and keep it up to date. If there is a tool for plans, \
use it.

Tools
- Call a tool by its exact name, with arguments that match its schema. Say in one short sentence what you do before a \
group of calls. Calls that do not depend on each other may be made together.
- Search with the shell: `rg` and `rg --files` if they are installed, else `grep -rn` and `find`. Read long files in \
parts. Do not print whole large files.
- Edit with a tool for patches if there is one. Otherwise edit with the shell: a patch by `git apply` or `patch`, a \
short script, or a here-document for a new file. Look at the result of every edit before you go on.
- If a command fails, read its message and change something before you try it again. If a permission is denied, do \
what the environment allows or ask for it; never work around it.
- Do not start programs that never end, editors or other interactive programs.

Check the result
- Run the tests, the type checker or the build that concern your change, the narrowest first. If there are none, try \
the change in another way.
- If a test failed before your change too, say so and leave it, unless it is your task. Never make a test pass by \
weakening it.

Answers
- Report shortly, in plain text: what was changed and why, in which files, what you ran and how it ended, and what \
remains open. Name places as `path:line`.
- Say honestly what you could not do or check. Do not paste whole files or long outputs that the user can open.
- To a question, give an answer. Change files only if the user wants a change.
"""
"""The system prompt that Codex uses with a model, in place of its own for models that it does not know. An empty one
would leave the agent without any."""

_EFFORTS = {
    "none": "No reasoning",
    "minimal": "Hardly any reasoning, for the quickest answers",
    "low": "Little reasoning, for quick answers",
    "medium": "Reasoning for everyday tasks",
    "high": "Much reasoning, for hard tasks",
    "xhigh": "Very much reasoning, for the hardest tasks",
    "max": "As much reasoning as the model can",
}


class ListedModel(Struct, frozen=True):
    """What an agent is told about a model."""

    name: str
    display_name: str
    description: str
    context_window: int | None
    """The tokens of a conversation and its reply together; None if they are not known."""
    max_output_tokens: int | None
    efforts: Sequence[str]
    """The values of `reasoning_effort` that it takes."""
    takes_images: bool
    parallel_calls: bool


def write_codex_models(models: Sequence[ListedModel], instructions: str | None) -> list[dict[str, Any]]:
    """Return Codex's entries, of at most MAX_ENTRIES models. `instructions` replace the gateway's own text."""
    text = instructions or INSTRUCTIONS
    return [_write_codex_model(model, at, text) for at, model in enumerate(models[:MAX_ENTRIES])]


def _write_codex_model(model: ListedModel, priority: int, instructions: str) -> dict[str, Any]:
    window = model.context_window
    return {
        "slug": model.name,
        "display_name": model.display_name,
        "description": model.description,
        **_write_efforts(model.efforts),
        "shell_type": "default",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "upgrade": None,
        "base_instructions": instructions,
        "supports_reasoning_summaries": True,
        "support_verbosity": False,
        "apply_patch_tool_type": None,
        "truncation_policy": {"mode": "bytes", "limit": 10_000},
        "supports_parallel_tool_calls": model.parallel_calls,
        **(
            {} if window is None else {"context_window": window, "auto_compact_token_limit": _find_limit(model, window)}
        ),
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"] if model.takes_images else ["text"],
    }


def _find_limit(model: ListedModel, window: int) -> int:
    """Return at how many tokens Codex summarises the conversation: the longest reply must still fit. By itself it does
    so at 90 % of the window, where a reply of 8,192 tokens no longer fits into one of 32,768."""
    return window - min(model.max_output_tokens or _USUAL_REPLY_TOKENS, window // 4)


def _write_efforts(efforts: Sequence[str]) -> dict[str, Any]:
    levels = [{"effort": effort, "description": _EFFORTS.get(effort, f"The effort {effort}")} for effort in efforts]
    if not levels:
        return {"supported_reasoning_levels": levels}
    return {
        "default_reasoning_level": "medium" if "medium" in efforts else efforts[0],
        "supported_reasoning_levels": levels,
    }


def make_etag(entries: Sequence[dict[str, Any]]) -> str:
    """Return the ETag of Codex's entries. Codex lists the models again if a reply has another one."""
    digest = hashlib.blake2b(digest_size=12, person=b"parley-models")
    if entries:  # all have the same instructions, which are most of their bytes
        digest.update(entries[0]["base_instructions"].encode())
    digest.update(msgspec.json.encode([{**entry, "base_instructions": None} for entry in entries]))
    return f'"{digest.hexdigest()}"'


def is_claude_code(user_agent: bytes | None) -> bool:
    return user_agent is not None and user_agent.startswith(_CLAUDE_AGENTS)


def choose_claude_id(name: str, names: Collection[str]) -> str:
    """Return the id under which Claude Code shows a model. `names` are those of all models: an id that is one of them
    leads to that model, so it is no other model's id."""
    id_ = CLAUDE_ID + name
    return name if name.lower().startswith(_CLAUDE_NAMES) or id_ in names else id_
