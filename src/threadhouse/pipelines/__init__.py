"""When things run, and the console script."""
