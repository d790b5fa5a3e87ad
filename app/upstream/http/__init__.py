"""HTTP to model servers: connections, their pool, and the body of a response as it arrives."""
