"""A compiled GeGLU MLP: what the workflow records."""

import torch
from torch import nn


class GeGLU(nn.Module):
    def __init__(self, size=64, hidden=256):
        super().__init__()
        self.gate = nn.Linear(size, hidden, bias=False)
        self.up = nn.Linear(size, hidden, bias=False)
        self.down = nn.Linear(hidden, size, bias=False)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.gate(x)) * self.up(x))


device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.compile(GeGLU().to(device))
x = torch.randn(32, 64, device=device)
with torch.no_grad():
    for _ in range(2000):
        model(x)
