"""Topologies, calibration, replay, planner."""
