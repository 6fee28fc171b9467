"""What GPU work is, without a trace: kernel names, cards and roofs, what an op must cost."""

# How the libraries that kernels come from spell themselves.
LIBRARIES = {"cublas": "cuBLAS", "cublasLt": "cuBLAS", "cudnn": "cuDNN", "cutlass": "CUTLASS"}
LIBRARIES |= {"inductor": "Inductor", "liger": "Liger", "triton": "Triton"}
