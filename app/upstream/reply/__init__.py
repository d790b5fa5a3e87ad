"""Turn the bytes of a model server's reply into events."""
