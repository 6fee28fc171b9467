"""The gated units against their peers: eager, `torch.compile`, its autotuned modes, and Liger.

`subjects` are what is computed, `contenders` compute it, `run` measures: how long the GPU works on
the replay of a CUDA graph (`device us`), and one call in a row of calls, host and device together
(`call us`).
"""
