"""The demo model: a small, deterministic model server that Parley talks to when no real one is configured."""
