"""Train on pictures that the main process loads: the GPU waits for the data loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        seed = torch.Generator().manual_seed(index)
        picture = torch.rand(1, 3, 160, 160, generator=seed)  # stands for reading a file
        smaller = nn.functional.interpolate(picture, size=64, mode="bilinear")
        return smaller[0], index % 10


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = nn.Conv2d(3, 16, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(4096, 10)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Pictures(), batch_size=16)
    for pictures, labels in loader:
        loss = nn.functional.cross_entropy(model(pictures.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
