"""The two message formats of AgentScope, `v1` (1.x) and `v2` (2.x), and their common parts."""
