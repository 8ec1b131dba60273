"""What ranks said to each other: events, recorder, wire counters, export."""
