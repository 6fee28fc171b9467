"""A compiled GeGLU MLP: what `record --why` is tried on."""

import torch
import torch.nn.functional as F


class GeGLU(torch.nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_proj = torch.nn.Linear(dim, hidden, bias=False)
        self.up_proj = torch.nn.Linear(dim, hidden, bias=False)
        self.down_proj = torch.nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(F.gelu(gate, approximate="tanh") * up)


torch.manual_seed(0)
model = torch.compile(GeGLU(64, 128).eval())
with torch.no_grad():
    for _ in range(10):
        model(torch.randn(8, 16, 64))
    x = torch.randn(8, 16, 64)
    torch.testing.assert_close(model(x), model._orig_mod(x))  # what is recorded changes no result
