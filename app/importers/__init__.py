"""Reads the configurations of other gateways, and writes what Parley can do of them as `parley.toml`."""
