"""Measuring the gated units against their peers: eager torch, `torch.compile`, its autotuned modes,
and Liger.

`subjects` says what is computed, `contenders` who computes it, `run` measures, `results` is what
comes out and is kept as JSON, `report` draws it. `foretrace bench` is the command.
"""
