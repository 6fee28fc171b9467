"""Which kernel the library picks for which matmul, from a map that was measured.

`table` reads a map and looks up matmuls and their nearest ones, `answers` says why a shape gets its
kernel. `tools/gemm_map.py` measures a map. Nothing here needs torch.
"""
