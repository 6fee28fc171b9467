"""Traces built from nothing: good, odd, broken and hostile ones, each with the behaviour it must
meet.
"""
