"""Cutting a conversation to the number of tokens that a model takes."""
