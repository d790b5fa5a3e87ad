"""What operators see: one line a request."""
