"""`[agents]`: what coding agents get in a form of their own."""

from app.config.tables.base import Table


class AgentSettings(Table):
    codex_models: bool = True
    """The list of models has Codex's own entries for a request that names its version."""
    codex_instructions: str | None = None
    """A file: the system prompt that Codex uses for each model. Without it, Parley's own text."""
    claude_ids: bool = True
    """Claude Code sees ids that it shows in its choice of models."""
