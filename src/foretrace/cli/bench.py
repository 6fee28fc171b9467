"""Record and measure: Time the gated-MLP kernels against eager, compiled and Liger.

Every contender runs in the same process: eager torch, `torch.compile`, its autotuned modes (CUDA
graphs; persistent TMA matrix products), Liger, and ours. Results are checked against float64 before
they are timed. Rounds are interleaved, L2 is emptied before each, and medians are given with their
quartiles. Two times are taken: what the GPU works (`device us`) and what a call costs in a row of
calls, host and device together (`call us`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretrace.errors import MissingError, UsageError

if TYPE_CHECKING:
    from foretrace.kernels.bench.results import Results
    from foretrace.kernels.bench.subjects import Subject

_DTYPES = ("bfloat16", "float16", "float32")


@click.group(epilog="See: foretrace docs kernels")
def command() -> None:
    """Measure the GeGLU kernels against eager, compiled, autotuned and Liger."""


def _options(function: Callable[..., None]) -> Callable[..., None]:
    """What `geglu` and `mlp` have in common."""
    for option in (
        click.option(
            "--size",
            "sizes",
            multiple=True,
            help="MxH or MxDxH; may be repeated. Default: the project's own.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(_DTYPES),
            default="bfloat16",
            show_default=True,
            help="Type of the data.",
        ),
        click.option("--contender", "names", multiple=True, help="Only these; may be repeated."),
        click.option(
            "--repeats", default=21, show_default=True, help="Timed rounds of each contender."
        ),
        click.option(
            "--autotune-seconds",
            default=600.0,
            show_default=True,
            help="Stop autotuning peers after this long.",
        ),
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path),
            help="Write the results here, as JSON.",
        ),
        click.option(
            "--plot", type=click.Path(path_type=Path), help="Draw the results here (.svg, .png)."
        ),
        click.option(
            "--json", "as_json", is_flag=True, help="Print the JSON in place of the table."
        ),
    ):
        function = option(function)
    return function


@command.command()
@_options
def geglu(sizes: tuple[str, ...], **options: Any) -> None:
    """The activation alone, forward, and forward with backward."""
    subjects = _subjects()
    pairs = [_size(text, 2) for text in sizes] or list(subjects.GLU_SIZES)
    dtype = subjects.dtype_named(options["dtype"])
    makers = (subjects.glu_forward, subjects.glu_backward)
    _measure([make(*pair, dtype) for make in makers for pair in pairs], options)


@command.command()
@_options
@click.option(
    "--training/--no-training",
    default=True,
    help="Also measure forward with backward, at the main sizes.",
)
@click.option(
    "--further/--no-further", default=True, help="Also measure the twelve further sizes, forward."
)
def mlp(sizes: tuple[str, ...], training: bool, further: bool, **options: Any) -> None:
    """The whole gated MLP, and its first half: gate and up projections with the activation."""
    subjects = _subjects()
    main = [_mlp_size(text) for text in sizes] or list(subjects.MAIN)
    more = list(subjects.FURTHER) if further and not sizes else []
    dtype = subjects.dtype_named(options["dtype"])
    rows = [subjects.mlp_forward(size, dtype) for size in main]
    if training:
        rows += [subjects.mlp_training(size, dtype) for size in main]
    rows += [subjects.gate_up(size, dtype) for size in main]
    rows += [subjects.mlp_forward(size, dtype) for size in more]
    _measure(rows, options)


@command.command()
@click.argument("sizes", nargs=-1, required=True)
@click.option(
    "--dtype",
    type=click.Choice(_DTYPES),
    default="bfloat16",
    show_default=True,
    help="Type of the data.",
)
def tune(sizes: tuple[str, ...], dtype: str) -> None:
    """Find the fastest route for SIZES (MxDxH) on this card, and keep it on disk for every later
    call.
    """
    subjects = _subjects()
    from foretrace.kernels import routes
    from foretrace.kernels.tune import tune as find

    for row in find([_mlp_size(text) for text in sizes], subjects.dtype_named(dtype)):
        click.echo(
            f"{row.part:15} {row.m}x{row.d}x{row.h}: {row.route}: {row.us} us, library "
            f"{row.library_us} us"
        )
    click.echo(f"kept in {routes.store_path(routes.card_name(0))}", err=True)


@command.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the results here (.svg, .png).")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document in place of the table."
)
def show(files: tuple[Path, ...], plot: Path | None, as_json: bool) -> None:
    """Show results that were written before; several files become one table."""
    _subjects()
    from foretrace.kernels.bench.results import Results, joined

    try:
        results = joined(Results.read(path) for path in files)
    except (ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise UsageError(f"{files[0]}: not a benchmark's results: {error}") from error
    _give(results, plot, as_json)


def _measure(rows: list[Subject], options: dict[str, Any]) -> None:
    from foretrace.kernels.bench import contenders
    from foretrace.kernels.bench.run import run

    names = options["names"] or contenders.NAMES
    unknown = sorted(set(names) - set(contenders.NAMES))
    if unknown:
        raise UsageError(f"no contender {unknown[0]!r}; there are {', '.join(contenders.NAMES)}")
    output: Path | None = options["output"]

    def keep(results: Results) -> None:
        if output:
            output.write_text(results.text())

    results = run(
        rows, names, options["repeats"], options["autotune_seconds"], _subjects().dtype_named(options["dtype"]),
        lambda text: click.echo(text, err=True), keep,
    )  # fmt: skip
    _give(results, options["plot"], options["as_json"])


def _give(results: Results, plot: Path | None, as_json: bool) -> None:
    from foretrace.kernels.bench import report

    if plot:
        report.plot(results, plot)
    click.echo(results.text() if as_json else report.table(results), nl=False)


def _subjects() -> Any:
    try:
        from foretrace.kernels.bench import subjects
    except ImportError as error:
        raise MissingError(
            "benchmarks need torch and Triton: pip install 'foretrace[bench]'"
        ) from error
    return subjects


def _mlp_size(text: str) -> tuple[int, int, int]:
    m, d, h = _size(text, 3)
    return m, d, h


def _size(text: str, parts: int) -> tuple[int, ...]:
    from foretrace.kernels.bench.subjects import parse_size

    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if len(size) != parts:
        raise UsageError(f"{text!r} has {len(size)} parts where {parts} are needed")
    return size
