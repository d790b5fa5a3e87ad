"""Model servers: what is said to them, what they answer, and the only HTTP between."""
