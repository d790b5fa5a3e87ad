"""Chat completions as the API of a model server: the body, and the reply into events."""
