"""The same loop, with a tracker: each call of accelerator.log ends a step."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from foretrace.hooks import AccelerateTracker

accelerator = Accelerator(log_with=AccelerateTracker("traces/inside"))
accelerator.init_trackers("run")
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(2048, 64), torch.randn(2048, 1)), batch_size=16)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    accelerator.log({"loss": loss.detach()})
accelerator.end_training()
