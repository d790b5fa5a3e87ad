"""Truncates a conversation to the number of tokens that a model accepts."""
