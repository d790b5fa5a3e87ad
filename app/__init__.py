"""Parley: an HTTP gateway that translates chat message formats."""

__version__ = "0.1.0"
