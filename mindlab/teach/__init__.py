"""Checks, and what makes a chapter a lesson."""
