"""Model servers: the requests sent to them, their replies, their faults, and the HTTP between."""
