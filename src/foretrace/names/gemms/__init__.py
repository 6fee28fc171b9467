"""Which kernel the library picks for which matmul: a map that was measured, and what it
says.

`table` reads a map, `tiling` counts tiles and waves, `near` explains a shape, `rules` states what
can be read off, `predict` guesses a shape that was not measured, `boundaries` says where the kernel
changes, `heat` draws a plane of it. Nothing here needs torch.
"""
