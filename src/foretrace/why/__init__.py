"""From a kernel to the source line and the compiler's reasons.

`sources/compiler` reads the records of a log. The modules here turn them into what
`schema/compiler.py` describes, and join that with the launches of a trace. Nothing runs the code
that a log holds: graphs and kernels are parsed as text.
"""
