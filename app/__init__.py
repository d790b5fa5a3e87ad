"""Parley: an HTTP gateway that translates chat message formats."""
