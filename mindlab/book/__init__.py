"""Build the editions, execute them, report, export."""
