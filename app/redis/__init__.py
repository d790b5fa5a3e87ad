"""The connection to Redis, with a circuit breaker."""
