"""Recording and measuring programs."""
