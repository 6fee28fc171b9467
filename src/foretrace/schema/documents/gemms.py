"""`foretrace lab gemms --json`: a map of matmuls, and what it says of a shape."""

from __future__ import annotations

from msgspec import Struct


class MatmulSize(Struct, frozen=True):
    """A matmul: `m` rows, `n` output features, `k` summed."""

    m: int
    n: int
    k: int
    layout: str
    dtype: str
    epilogue: str


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
