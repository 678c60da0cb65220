"""The rules of Threadhouse: pure functions and values. No I/O, no clock, no randomness, no environment."""
