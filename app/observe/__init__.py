"""Logging: one line per request."""
