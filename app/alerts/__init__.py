"""Alerts to webhooks, for those who have no Prometheus: what is wrong for how long, and who is told."""
