"""HTTP to model servers: connections, the connection pool, and response bodies as they arrive."""
