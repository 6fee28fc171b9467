"""Answers computed from traces: rules, comparisons, compiled code, jobs, guesses."""
