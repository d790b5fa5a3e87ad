"""What is done to a request before a model sees it, and undone on its reply."""
