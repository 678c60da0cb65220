"""What is built: one module per product."""
