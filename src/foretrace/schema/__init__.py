"""What the tables, kernels, findings, verdicts and devices ARE: plain data that every stage shares."""
