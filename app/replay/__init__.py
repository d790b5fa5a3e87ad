"""`parley replay`: plays a report of a request back, as its model servers answered it."""
