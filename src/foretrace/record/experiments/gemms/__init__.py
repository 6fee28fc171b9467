"""Which kernel the library picks for which matmul: the points of a sweep, and measuring."""
