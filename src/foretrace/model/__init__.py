"""A trace as tables: events, links between host and GPU, costs, bounds, idle time."""
