"""What the name of a kernel, a device or a matmul says."""

# How the libraries that kernels come from spell themselves.
LIBRARIES = {"cublas": "cuBLAS", "cublasLt": "cuBLAS", "cudnn": "cuDNN", "cutlass": "CUTLASS"}
LIBRARIES |= {"inductor": "Inductor", "liger": "Liger", "triton": "Triton"}
