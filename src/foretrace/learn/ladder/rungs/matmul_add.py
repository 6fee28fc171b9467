"""The lowest rung: one matmul and one addition, `add(matmul(x, w), b)`.

At size 64 the host takes far longer than the GPU; at 4096 the GPU is busy. With the default
two-dimensional bias the compiled form is one `aten::addmm`, which copies the bias into the result
first: the kernel count falls and a memcpy appears.
"""

from __future__ import annotations

from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """x and w are (size, size), or (batch, size, size); b is (size, size), or (size,) for `1d`."""
    import torch

    from foretrace.learn.ladder.modules import forward_only, place

    size, batch = setup["size"], setup["batch"]
    shape = (batch, size, size) if batch else (size, size)
    x, w = (torch.randn(shape, **place(setup)) for _ in range(2))
    b = torch.randn((size,) if setup["bias"] == "1d" else (size, size), **place(setup))

    def separate(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.add(torch.matmul(x, w), b)

    def together(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(b.expand(shape), x, w) if batch else torch.addmm(b, x, w)

    function = setup.compile(together if setup.variant == "addmm" else separate)
    return Built(forward_only(function, x, w, b), region="matmul_add")


RUNG = Rung(
    name="matmul_add",
    title="add(matmul(x, w), b): two kernels, and what the host spends on them",
    options=(
        Option("size", 64, "rows and columns of every matrix"),
        Option("batch", 0, "leading batch dimension; 0 for plain matrices"),
        Option("bias", "2d", "shape of b", choices=("2d", "1d")),
    ),
    variants={"eager": "a matmul and an add", "addmm": "one torch.addmm, written by hand"},
    build=build,
)
