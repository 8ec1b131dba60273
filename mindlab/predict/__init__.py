"""Closed forms: volume, seconds, memory, flops, each with its source."""
