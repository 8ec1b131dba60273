"""Closed forms: how many bytes, how many rounds, how long. Nothing here has seen a measurement."""
