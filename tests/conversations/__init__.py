"""The same conversations in every format, and what the gateway makes of them."""
