"""Google's Gemini API as the API of a model server: the body, and the reply into events."""

FORMAT = "google-gemini-v1"
"""The `format` of items of `reasoning_details` that servers of this API want back: OpenRouter's name
(openrouter.ai/docs/use-cases/reasoning-tokens)."""
