"""Run a function on every rank: pool, worker, backends, watchdog."""
