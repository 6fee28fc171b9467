"""Plain data that every layer shares: tables, kernels, findings, verdicts, devices, documents."""

# What a recorded matmul can be; here, since the help of a command must not load the documents.
LAYOUTS = ("tn", "nn", "nt", "tt")
DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8")
EPILOGUES = ("none", "bias", "bias_gelu", "bias_relu")
