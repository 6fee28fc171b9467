"""Which kernel the library picks for which matmul, from a map that was measured.

`table` reads a map, `build` makes one, `tiling` counts tiles and waves, `distance` finds the
nearest matmuls and predicts from them, `answers` says why a shape gets its kernel, and
makes the document of `foretrace lab gemms`. Nothing here needs torch.
"""
