"""What everything else stands on: errors, files, units, plugins, private data."""
