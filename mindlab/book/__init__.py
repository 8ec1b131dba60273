"""Build the notebooks from their sources, execute them, report, and export pages."""
