"""What costs time, threads and memory of the process: timers, turns of the event loop, tokenizers, decompression."""
