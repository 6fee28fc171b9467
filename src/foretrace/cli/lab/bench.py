"""Time gated-MLP kernels against eager, compiled, Liger and Quack."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import MissingError, UsageError
from foretrace.cli import SuggestingGroup
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.kernels.bench.subjects import BenchSubject
    from foretrace.record.lab_documents import BenchDocument

_OUTPUT = click.Path(path_type=Path)
_DTYPES = click.Choice(("bfloat16", "float16", "float32"))
_DTYPE = use.shown("--dtype", "Type of the data.", type=_DTYPES, default="bfloat16")
# the options of every benchmark, and of those whose sizes can be given
_ACTIVATION = use.shown(
    "--activation",
    "GeGLU, SwiGLU or ReGLU.",
    type=click.Choice(("gelu_tanh", "silu", "relu")),
    default="gelu_tanh",
)
_MEASURED = use.joined(
    _DTYPE,
    use.option("--contender", "Only these; may be repeated.", to="names", multiple=True),
    use.shown("--repeats", "Timed rounds of each contender.", default=21, type=click.IntRange(1)),
    use.shown("--autotune-seconds", "Stop autotuning peers after this long.", default=600.0),
    use.option("-o --output", "Write the results here, as JSON.", type=_OUTPUT),
    use.as_json,
)
_MEASURING = use.joined(
    use.option(
        "--size",
        "MxH or MxDxH; may be repeated. Default: the project's own.",
        to="sizes",
        multiple=True,
    ),
    _MEASURED,
)


@click.group(cls=SuggestingGroup, epilog="See: foretrace docs kernels")
def command() -> None:
    """Measure the GeGLU kernels against eager, compiled, autotuned, Liger and Quack."""


@command.command()
@_MEASURING
def geglu(sizes: tuple[str, ...], dtype: str, **options: Any) -> None:
    """The activation alone, forward, and forward with backward."""
    subjects = _subjects()
    pairs = [subjects.parse_size(text, 2) for text in sizes] or list(subjects.GLU_SIZES)
    kind = subjects.dtype_named(dtype)
    ways = [(pair, trains) for trains in (False, True) for pair in pairs]
    rows = [subjects.glu(*pair, kind, trains=trains) for pair, trains in ways]
    _measure(rows, kind, **options)


@command.command()
@_MEASURING
@_ACTIVATION
def mlp(sizes: tuple[str, ...], dtype: str, activation: str, **options: Any) -> None:
    """The whole gated MLP, and its first half: gate and up projections with the activation."""
    subjects = _subjects()
    main = [subjects.parse_size(text) for text in sizes] or list(subjects.MAIN)
    more = [] if sizes else list(subjects.FURTHER)
    kind = subjects.dtype_named(dtype)
    forward = partial(subjects.mlp, activation=activation)
    parts = [(forward, main), (partial(forward, trains=True), main)]
    parts += [(subjects.gate_up, main if activation == "gelu_tanh" else []), (forward, more)]
    _measure([make(size, kind) for make, group in parts for size in group], kind, **options)


@command.command()
@use.shown("--count", "How many sizes.", default=60, type=click.IntRange(1))
@use.shown("--seed", "Another seed, other sizes.", default=0)
@use.option("--unit", "Widths are multiples of this, as 64 in models.", type=click.IntRange(1, 512))
@use.shown("--tuned-every", "Tune peers at every Nth size.", default=3, type=click.IntRange(1))
@_ACTIVATION
@_MEASURED
def sweep(
    count: int, seed: int, unit: int | None, tuned_every: int, dtype: str, activation: str,
    **options: Any,
) -> None:  # fmt: skip
    """The whole MLP at random sizes that no table was measured at, forward and with backward."""
    subjects = _subjects()
    kind = subjects.dtype_named(dtype)
    sizes = subjects.random_sizes(count, seed, unit or 0)
    rows = [
        subjects.mlp(size, kind, activation, trains=trains)
        for trains in (False, True)
        for size in sizes
    ]
    _measure(rows, kind, tuned_every=tuned_every, **options)


@command.command()
@click.argument("sizes", nargs=-1, required=True)
@_DTYPE
def tune(sizes: tuple[str, ...], dtype: str) -> None:
    """Find the fastest route for SIZES (MxDxH) on this GPU, and keep it on disk for later calls."""
    subjects = _subjects()
    from foretrace.kernels import routes
    from foretrace.kernels.tune import tune as find

    parsed = [(m, d, h) for m, d, h in map(subjects.parse_size, sizes)]
    for row in find(parsed, subjects.dtype_named(dtype), say=partial(click.echo, err=True)):
        times = f"{row.device_us} us on the GPU, {row.call_us} us a call"
        click.echo(f"{row.part:15} {row.m}x{row.d}x{row.h}: {row.route}: {times}")
    click.echo(f"kept in {routes.store_path(routes.card_name(0))}", err=True)


@command.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@use.as_json
def show(files: tuple[Path, ...], as_json: bool) -> None:
    """Show results from files; several files make one table."""
    from foretrace.record.lab_documents import joined_bench, read_bench

    _show(joined_bench(read_bench(path) for path in files), as_json)


def _measure(
    rows: list[BenchSubject],
    dtype: Any,
    *,
    names: tuple[str, ...],
    repeats: int,
    autotune_seconds: float,
    output: Path | None,
    as_json: bool,
    tuned_every: int = 1,
) -> None:
    from foretrace.base import files
    from foretrace.kernels.bench import contenders
    from foretrace.kernels.bench.run import run

    unknown = sorted(set(names) - set(contenders.NAMES))
    if unknown:
        known = ", ".join(contenders.NAMES)
        raise UsageError(f"no contender named {unknown[0]!r}: choose from {known}")

    def keep(results: BenchDocument) -> None:
        if output:
            files.write_text(output, results.text())

    chosen = names or contenders.NAMES
    untuned = tuple(name for name in chosen if name not in contenders.TUNED)
    measured = [(row, untuned if at % tuned_every else chosen) for at, row in enumerate(rows)]
    say = partial(click.echo, err=True)
    results = run(measured, repeats, autotune_seconds, dtype, say, keep)
    _show(results, as_json)


def _show(results: BenchDocument, as_json: bool) -> None:
    from foretrace.record.lab_lines import bench_text

    click.echo(results.text() if as_json else bench_text(results), nl=False)


def _subjects() -> Any:
    try:
        from foretrace.kernels.bench import subjects
    except ImportError as error:
        message = "benchmarks need torch and Triton: pip install 'foretrace[bench]'"
        raise MissingError(message) from error
    return subjects
