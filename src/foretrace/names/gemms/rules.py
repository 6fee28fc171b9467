"""Rules that can be read off a map: how many matmuls obey each, and which do not.

A rule is a sentence about kernels that can be wrong. Every share is counted from the map.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from foretrace.names.gemms.entries import point_of, tile_text
from foretrace.names.gemms.partner import EQUAL
from foretrace.names.gemms.table import GemmMap
from foretrace.schema.documents.gemms import MapRule
from foretrace.schema.gemms import NARROW

LINE = ("dtype", "layout", "epilogue", "n", "k")  # what stays the same while M grows
LONG_K, SHORT_K = 4096, 2048
FEW_ROWS = 8  # the narrowest tile of nvjet
SLOWER = 1.02  # repeats of one matmul differ by as much
Counted = tuple[pl.DataFrame, pl.DataFrame]  # all matmuls that a rule is about, and the exceptions


def rules(found: GemmMap) -> list[MapRule]:
    """Every rule, counted."""
    frame, sms, made = _prepared(found.frame), found.facts.sms, []
    for name, (count, text) in RULES.items():
        every, exceptions = count(frame, sms)
        said = [_said(row) for row in exceptions.iter_rows(named=True)]
        told = " ".join(text.split()).format(sms=sms, half=sms // 2)
        made.append(MapRule(name, told, every.height - len(said), every.height, said))
    return [rule for rule in made if rule.of]


def _prepared(frame: pl.DataFrame) -> pl.DataFrame:
    points = [point_of(row) for row in frame.iter_rows(named=True)]
    return frame.with_columns(aligned=pl.Series([point.aligned for point in points]))


def _of(every: pl.DataFrame, obeys: pl.Expr) -> Counted:
    return every, every.filter(~obeys)


def _nvjet(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(family="nvjet")


def _alignment(frame: pl.DataFrame, _: int) -> Counted:
    every = frame.filter(pl.col("dtype").is_in(NARROW))
    return _of(every, (pl.col("family") == "nvjet") == pl.col("aligned"))


def _old_kernels(frame: pl.DataFrame, _: int) -> Counted:
    narrow = pl.col("dtype").is_in(("bf16", "fp16"))
    every = frame.filter(narrow, ~pl.col("aligned"), pl.col("arch").is_not_null())
    return _of(every, pl.col("arch") != "sm90")


def _grows(frame: pl.DataFrame, _: int) -> Counted:
    before = pl.col("m", "tile_n", "tile_m").shift().over(LINE).name.prefix("before_")
    lines = _nvjet(frame).sort(*LINE, "m").with_columns(before)
    every = lines.filter(pl.col("m") >= 2 * pl.col("before_m"))
    area, smaller = (
        pl.col(f"{name}tile_n").cast(pl.Int32) * pl.col(f"{name}tile_m") for name in ("", "before_")
    )
    return _of(every, area >= smaller)


def _few_rows(frame: pl.DataFrame, _: int) -> Counted:
    return _of(_nvjet(frame).filter(pl.col("m") <= FEW_ROWS), pl.col("tile_m") == FEW_ROWS)


def _split_has_few(frame: pl.DataFrame, sms: int) -> Counted:
    return _of(_nvjet(frame).filter("splits"), pl.col("tiles") <= sms // 2)


def _few_are_split(frame: pl.DataFrame, sms: int) -> Counted:
    every = _nvjet(frame).filter(pl.col("tiles") <= sms // 2, pl.col("k") >= LONG_K)
    return _of(every, pl.col("splits"))


def _short_k(frame: pl.DataFrame, _: int) -> Counted:
    return _of(_nvjet(frame).filter(pl.col("k") < SHORT_K), ~pl.col("splits"))


def _memset(frame: pl.DataFrame, _: int) -> Counted:
    every = _nvjet(frame).filter(~pl.col("splits"))
    return _of(every, pl.col("others").str.contains("Memset") == (pl.col("waves") > 2))


def _epilogue(frame: pl.DataFrame, _: int) -> Counted:
    every = _nvjet(frame).filter(pl.col("epilogue") != "none")
    return _of(
        every, pl.col("others").str.contains(r"^(Memset \(Device\)|split-K reduce \w+|; )*$")
    )


def _fewer_ends(frame: pl.DataFrame, _: int) -> Counted:
    """One row for each pair: the matmul whose multiprocessors end fewer tiles."""
    same = ["dtype", "layout", "epilogue", "m"]
    ends = pl.col("waves").ceil()
    work = ends * pl.col("tile_n").cast(pl.Int64) * pl.col("tile_m") * pl.col("k")
    alone = _nvjet(frame).filter(~pl.col("splits"), roof="compute")
    counted = alone.with_columns(ends=ends, work=work)
    turned = counted.select(
        *same, n="k", k="n", other_us="kernel_us", other_ends="ends", other_work="work"
    )
    every = counted.join(turned, on=[*same, "n", "k"]).filter(
        pl.col("ends") < pl.col("other_ends"),
        (pl.col("work") / pl.col("other_work") - 1).abs() <= EQUAL,
    )
    return _of(every, pl.col("kernel_us") <= SLOWER * pl.col("other_us"))


def _no_tensor_cores(frame: pl.DataFrame, _: int) -> Counted:
    every = frame.filter(dtype="fp32")
    return _of(every, ~pl.col("kernel").str.contains("tensorop|_tensor[0-9]|warpgroup"))


def _said(row: dict[str, object]) -> str:
    said = f"{point_of(row).text}: {row['short']}"
    if "before_m" in row:
        before = f"{row['before_tile_n']}x{row['before_tile_m']}"
        return f"{said} (tile {tile_text(row)}, at M = {row['before_m']} {before})"
    return said


RULES: dict[str, tuple[Callable[[pl.DataFrame, int], Counted], str]] = {
    "alignment": (
        _alignment,
        """A 16-bit or fp8 matmul runs on nvjet exactly when every row begins at a multiple of 16
        bytes (sizes along memory are multiples of 8, of 16 for fp8).""",
    ),
    "old kernels": (
        _old_kernels,
        """A 16-bit matmul that is not aligned runs on a kernel written for an older card (where
        the name states a card).""",
    ),
    "tile grows with M": (
        _grows,
        "When M doubles or more and all else stays, the tile of nvjet does not shrink.",
    ),
    "few rows": (
        _few_rows,
        f"Up to M = {FEW_ROWS}, the tile of nvjet is {FEW_ROWS} rows high, as low as it gets.",
    ),
    "split only few tiles": (
        _split_has_few,
        "nvjet splits K only where the tiles fill at most half of the card ({half} of {sms}).",
    ),
    "split few tiles": (
        _few_are_split,
        f"""Where the tiles of nvjet fill at most half of the card and K is {LONG_K} or more, K is
        split.""",
    ),
    "short K": (_short_k, f"nvjet does not split a K below {SHORT_K}."),
    "memset": (
        _memset,
        """A memset runs before nvjet exactly when its tiles take more than two waves (matmuls with
        K in one part).""",
    ),
    "epilogue": (
        _epilogue,
        """nvjet computes bias, ReLU and GELU in the kernel of the matmul, or in the one that adds
        the parts of K: no other kernel follows.""",
    ),
    "fewer ends": (
        _fewer_ends,
        """Of two nvjet matmuls with N and K exchanged and equal arithmetic for each
        multiprocessor, the one that ends fewer tiles is not slower (by more than 2%).""",
    ),
    "no tensor cores": (
        _no_tensor_cores,
        "A float32 matmul without TF32 runs on no tensor core.",
    ),
}
