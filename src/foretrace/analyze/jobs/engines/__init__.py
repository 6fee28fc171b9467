"""What runs `reduce_file` on many files: processes of this machine, or tasks of a Ray cluster."""
