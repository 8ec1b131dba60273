"""What the set-up tells a person: its steps, and why it ends."""

from __future__ import annotations


class Refusal(Exception):
    """Why the set-up ends, and what to do about it."""


def say(text: str) -> None:
    """One line of progress."""
    print(f"set-up: {text}", flush=True)
