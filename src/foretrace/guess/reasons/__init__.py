"""One file per reason that the project knows for a prediction to miss. To add one, write a module
with a `REASON`.
"""
