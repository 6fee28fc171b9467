"""The same loop, in Accelerate's own profiler."""

import torch
from accelerate import Accelerator, ProfileKwargs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import foretrace

profile = ProfileKwargs(
    schedule_option={"wait": 5, "warmup": 1, "active": 3, "repeat": 1},
    record_shapes=True,
    on_trace_ready=foretrace.handler("traces", name="inside"),
)
accelerator = Accelerator(kwargs_handlers=[profile])
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(2048, 64), torch.randn(2048, 1)), batch_size=16)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
with accelerator.profile() as prof:
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.mse_loss(model(x), y))
        optimizer.step()
        prof.step()
