"""Train, and keep every output for a metric: the memory in use grows with each step."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 8192)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
outputs = []
for _ in range(60):
    x = torch.randn(512, 256, device=device)
    target = torch.randint(0, 8192, (512,), device=device)
    output = model(x)
    loss = nn.functional.cross_entropy(output, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    outputs.append(output)  # .detach() does not help: the numbers themselves stay
