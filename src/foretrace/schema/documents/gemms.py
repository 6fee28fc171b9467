"""`foretrace lab gemms --json`: a map of matmuls, what it says of a shape, or a live sweep."""

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


class NearMatmul(Struct, frozen=True):
    """A measured matmul that a prediction rests on."""

    matmul: MatmulSize
    short: str
    cold_us: float
    octaves: float


class LiveMark(Struct, frozen=True):
    """What this machine's GPU did: `hit` where the family is right and the time within 15%."""

    device: str
    kernel: str
    short: str
    family: str
    us: float
    family_right: bool
    time_error: float
    verdict: str


class PredictAnswer(Struct, frozen=True):
    """A kernel and a time for a matmul, by the nearest matmuls of the map.

    The time is from `low_us` to `high_us` nine times of ten. `inconclusive` where the nearest
    matmul is too far away. `agreement` is the weight of the nearest matmuls that have the kernel.
    `live` is None where no such GPU is here, and `not_live` says why.
    """

    matmul: MatmulSize
    measured: bool
    inconclusive: bool
    family: str
    kernel: str
    short: str
    kind: str
    agreement: float
    us: float
    low_us: float
    high_us: float
    tflops: float
    roof_percent: float
    nearest: list[NearMatmul]
    live: LiveMark | None = None
    not_live: str = ""


class KindAccuracy(Struct, frozen=True):
    """Predictions of held-out matmuls of one kind: shares with the family, the tile and the time
    right, and with the time inside the interval.
    """

    kind: str
    matmuls: int
    family: float
    tile: float
    time: float
    interval: float


class MapAccuracy(Struct, frozen=True):
    """Predictions of matmuls that the map does not hold: shares that were right, and of each kind.

    A time is right within 15% of the measured one. A matmul is aligned where every row begins at
    a multiple of 16 bytes.
    """

    matmuls: int
    family: float
    tile: float
    time: float
    interval: float
    median_error: float
    kinds: list[KindAccuracy]


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


class SweptMatmul(Struct, frozen=True):
    """A matmul that was timed on this machine's CPU."""

    matmul: MatmulSize
    us: float
    gflops: float
    roof_percent: float | None


class LiveSweep(Struct, frozen=True):
    """Matmuls that were timed here; what cannot be measured is in `not_measured`."""

    device: str
    torch: str
    roof_tflops: dict[str, float]
    roof_source: str
    matmuls: list[SweptMatmul]
    not_measured: dict[str, str]
    seconds: float


class GemmsDocument(Struct, frozen=True):
    """The map and whatever was asked of it; what was not asked is None or empty."""

    schema: int
    device: str
    command: str
    environment: dict[str, str]
    matmuls: int
    accuracy: MapAccuracy | None = None
    heat: HeatPlane | None = None
    near: NearAnswer | None = None
    predict: PredictAnswer | None = None
    sweep: LiveSweep | None = None
    written: str = ""


DOCUMENT = GemmsDocument
