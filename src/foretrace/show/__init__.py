"""Documents, sentences and pages about a trace."""
