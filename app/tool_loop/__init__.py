"""Replies whose tools the gateway runs: the model is called, its calls are run, and it is called again."""
