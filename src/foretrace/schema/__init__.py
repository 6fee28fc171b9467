"""Plain data that every layer shares: tables, kernels, findings, verdicts, devices, documents."""
