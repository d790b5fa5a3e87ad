"""The process that holds the connections to servers of tools."""
