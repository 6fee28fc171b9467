"""Lessons, the ladder, the tour and the claims of the articles."""
