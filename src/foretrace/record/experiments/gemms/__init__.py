"""Which kernel the library picks for which matrix product: the points of a sweep, and measuring."""
