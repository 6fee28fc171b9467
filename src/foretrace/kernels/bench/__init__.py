"""The gated units against their peers: eager, `torch.compile`, its autotuned modes, and Liger.

`subjects` are what is computed, `contenders` compute it, `run` measures.
"""
