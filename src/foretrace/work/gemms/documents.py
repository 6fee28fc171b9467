"""`foretrace lab gemms --json`: a map of matmuls, and what it says of a shape."""

from __future__ import annotations

from math import gcd

from msgspec import Struct

NARROW = ("bf16", "fp16", "fp8")  # types whose aligned matmuls run on nvjet on Hopper
# the widest load of one thread, and what the TMA unit demands of row starts
LOAD_BYTES = 16


# It is `x W^T` with `x` (m, k) and `W` (n, k), as `nn.Linear` computes it (`tn`). `nn` has `W` as
# (k, n), as in the gradient of an input; `nt` has `x` as (k, m) as well, as in the gradient of a
# weight; `tt` has `x` as (k, m) and `W` as (n, k).
class MatmulSize(Struct, frozen=True):
    """A matmul: `m` rows, `n` output features, `k` summed."""

    m: int
    n: int
    k: int
    layout: str = "tn"
    dtype: str = "bf16"
    epilogue: str = "none"

    @property
    def size(self) -> str:
        """`8192x3072x768`: M, N, K."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def text(self) -> str:
        """`8192x3072x768 tn bf16`, and the epilogue if there is one."""
        epilogue = "" if self.epilogue == "none" else f" {self.epilogue.replace('_', '+')}"
        return f"{self.size} {self.layout} {self.dtype}{epilogue}"

    @property
    def flops(self) -> int:
        """A multiplication and an addition each."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes_each(self) -> int:
        """Bytes of one element of x or W."""
        return {"bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4, "fp8": 1}[self.dtype]

    @property
    def bytes(self) -> int:
        """Both operands read once, the result written once; fp8 gives a result in bf16."""
        size = self.bytes_each
        return size * (self.m + self.n) * self.k + max(size, 2) * self.m * self.n

    @property
    def intensity(self) -> float:
        """FLOP for each byte that must move."""
        return self.flops / self.bytes

    @property
    def contiguous(self) -> tuple[int, int, int]:
        """The sizes that run along memory in x, W and the result; one row of x is a vector."""
        along_x = self.m if self.layout in ("nt", "tt") and self.m > 1 else self.k
        return along_x, self.k if self.layout in ("tn", "tt") else self.n, self.n

    @property
    def load_bytes(self) -> int:
        """The widest load that the start of every row allows, at most 16 bytes."""
        size = self.bytes_each
        return min(gcd(along * size, LOAD_BYTES) for along in self.contiguous)

    @property
    def aligned(self) -> bool:
        """Whether every row begins at a multiple of 16 bytes."""
        return self.load_bytes == LOAD_BYTES


class MappedMatmul(Struct, frozen=True):
    """A matmul of the map. Times are those of all its kernels; None is what is not known.

    `waste` is the part of all waves without a tile, `reuse` the FLOP for each element that a tile
    loads. `roof_percent` is of the roof that its FLOP or its bytes allow, with L2 empty before.
    """

    matmul: MatmulSize
    kernel: str
    short: str
    family: str
    tile: str
    cluster: str
    stages: int | None
    split: bool
    parts: int | None
    tiles: int | None
    waves: float | None
    waste: float | None
    intensity: float
    cold_us: float
    warm_us: float
    kernel_us: float
    tflops: float
    roof: str
    roof_percent: float
    others: str


class TileChoice(Struct, frozen=True):
    """A tile on this shape: what it would take. `used_percent` is the share of what all waves
    compute that is part of the result.
    """

    tile: str
    chosen: bool
    tiles: int
    waves: float
    waste: float
    used_percent: float
    reuse: float


class KernelRange(Struct, frozen=True):
    """Rows from `first_m` to `last_m`, as measured, for which the library takes one kernel."""

    first_m: int
    last_m: int
    short: str
    cluster: str
    kernel: str


class NearAnswer(Struct, frozen=True):
    """Why a shape gets its kernel. `exact` where the map holds the shape itself, else the one that
    was found is `octaves` away.
    """

    wanted: MatmulSize
    exact: bool
    octaves: float
    found: MappedMatmul
    why: list[str]
    tiles: list[TileChoice]
    partner: MappedMatmul | None
    against_partner: list[str]
    by_rows: list[KernelRange]


class HeatCell(Struct, frozen=True):
    """Matmuls with rows and output features within an octave: medians, and the usual tile."""

    m: int
    n: int
    matmuls: int
    roof_percent: float
    tflops: float
    tile: str


class HeatPlane(Struct, frozen=True):
    """The plane of M and N for one type, layout and epilogue; each cell is an octave wide."""

    dtype: str
    layout: str
    epilogue: str
    cells: list[HeatCell]


class GemmsDocument(Struct, frozen=True):
    """The map: a plane of it, or what it says of a shape."""

    schema: int
    device: str
    command: str
    environment: dict[str, str]
    matmuls: int
    heat: HeatPlane | None = None
    near: NearAnswer | None = None


DOCUMENTS = {"gemms": GemmsDocument}
