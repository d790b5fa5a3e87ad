"""The reply of a model server: bytes into events."""
