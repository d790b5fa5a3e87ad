"""The two formats of AgentScope: `v1` (1.x) and `v2` (2.x), and what they share."""
