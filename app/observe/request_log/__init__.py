"""The request log: what clients and model servers sent, to find out later what happened. It is off by default."""
