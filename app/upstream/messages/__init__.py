"""Anthropic's Messages API as the API of a model server: the body, and the reply into events."""

FORMAT = "anthropic-claude-v1"
"""The `format` of items of `reasoning_details` that servers of this API want back: OpenRouter's name
(openrouter.ai/docs/use-cases/reasoning-tokens)."""
