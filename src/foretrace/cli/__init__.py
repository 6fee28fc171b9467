"""The command line: one thin file per command, found by name and imported when it is used.

The first line of a command's file is its summary. `foretrace --help` reads that line alone, because
importing every command would take longer than the answer. `main` is the only place that prints
errors: one line on stderr, and a documented exit code.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from foretrace.base.errors import ForetraceError, nearest
from foretrace.base.files import module_names
from foretrace.base.version import __version__
from foretrace.cli._process import drop

INTERNAL_ERROR = 70
DRIVER = Path("/proc/driver/nvidia")
FIRST = ("record", "look", "compare", "check", "try", "report", "serve", "why", "memory")
# commands that are gone, and what to type instead
REMOVED = {
    "counters": "Nsight Compute shows its own: ncu python SCRIPT",
    "sql": "type queries into the box of foretrace serve, or use the frames of foretrace.open",
    "remote": "ssh HOST foretrace record SCRIPT, or foretrace record --hf-job FLAVOR SCRIPT",
    "share": "foretrace export TRACE --to shared",
    "perfetto": "foretrace export TRACE --to perfetto",
    "guess": "foretrace look TRACE --guess; what holds on a trace: foretrace check TRACE --write",
    "name": "foretrace explain KERNEL",
    "schema": "foretrace docs schema NAME",
    "recordings": "foretrace look --list",
    "whatif": "foretrace look TRACE --fixes",
    "worth": "foretrace try --only compile SCRIPT",
    **{
        name: f"foretrace lab {name}"
        for name in ("ladder", "run", "bench", "gemms", "roofs", "shapes")
    },
}
# packages whose name on PyPI differs from the module's
_PACKAGES = {"backports": "backports.zstd", "liger_kernel": "liger-kernel"}
# the refusals of a write; those of a file name it
_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class SuggestingGroup(click.Group):
    """A group whose commands are found when they are used; a mistyped one gets a suggestion."""

    what = "command"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click suggests only from commands that are registered in advance: these are not."""
        name, names = args[0], self.list_commands(ctx)
        if name in names or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if ctx.parent is None and name in REMOVED:
            raise click.UsageError(f"foretrace {name} is gone; instead: {REMOVED[name]}", ctx)
        hint = nearest(name, names, f"choose one of {', '.join(names)}")
        raise click.UsageError(f"no {self.what} {name!r}: {hint}", ctx)


class Commands(SuggestingGroup):
    """Every module of a package whose name has no leading underscore is a command."""

    def __init__(self, *given: Any, package: str = __name__, **options: Any) -> None:
        super().__init__(*given, **options)
        self.package = package
        self.folder = Path(__file__).parent.joinpath(*package.split(".")[2:])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The first commands, then the others in alphabetical order."""
        names = module_names([str(self.folder)])
        if self.package != __name__:
            return names
        return [*FIRST, *sorted({*names, "lab"} - {*FIRST})]  # lab is a package

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of that name and take its `command`."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{self.package}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, the first ones apart, each with its whole summary."""
        names = self.list_commands(ctx)
        width = max(map(len, names))  # one column for both parts
        parts = {"Commands": names}
        if self.package == __name__:
            parts = {"First": [*FIRST], "Further": names[len(FIRST) :]}
        for title, part in parts.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self.summary(name)) for name in part])

    def summary(self, command: str) -> str:
        """The first line of a command's file."""
        file = self.folder / f"{command}.py"
        with (file if file.exists() else self.folder / command / "__init__.py").open(
            encoding="utf-8"
        ) as source:
            return source.readline().strip().strip('"').removesuffix(".")


def version_lines() -> list[str]:
    """Programs read the first line. Neither torch nor a CUDA library is loaded for the others."""
    python = ".".join(map(str, sys.version_info[:3]))
    torch = installed("torch")
    return [
        f"foretrace {__version__}",
        f"python {python}",
        f"torch {torch}" if torch else "torch: not installed (reading needs none)",
        _card(DRIVER),
    ]


def installed(package: str) -> str:
    """The version of an installed package, from the name of its folder: importlib.metadata takes
    longer to import than the rest of this command.
    """
    for place in sys.path:
        with suppress(OSError):
            for name in os.listdir(place or "."):
                if found := re.fullmatch(rf"{package}-([^-]+)\.dist-info", name):
                    return found[1]
    return ""


def _card(driver: Path) -> str:
    """The cards, as the driver lists them: `card NVIDIA H200, NVIDIA H200 (driver 570.86.15)`."""
    models = []
    for file in sorted(driver.glob("gpus/*/information")):
        with suppress(OSError):
            lines = file.read_text("utf-8", "replace").splitlines()
            models += [line[6:].strip() for line in lines if line.startswith("Model:")]
    if not models:
        return "card: no NVIDIA driver"
    version = ""
    with suppress(OSError):
        words = (driver / "version").read_text("utf-8", "replace").partition("Module")[2].split()
        version = next((word for word in words if re.fullmatch(r"\d+\.[\d.]+", word)), "")
    return f"card {', '.join(models)}" + (f" (driver {version})" if version else "")


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo("\n".join(version_lines()))
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, and those of Python, torch and the card.",
)
def foretrace() -> None:
    """Guess first, then look: read, check and compare PyTorch profiler traces."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    import gc

    gc.set_threshold(200_000, 50, 50)  # a command makes many objects and no cycles, and ends soon
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except (BrokenPipeError, SystemExit) as leaving:
        # Click makes a closed pipe an exit with 1, and wraps stdout
        if isinstance(leaving, SystemExit) and not hasattr(sys.stdout, "wrapped"):
            raise
        drop(sys.stdout)  # the reader of the pipe has closed it
        return 0
    except BaseException as error:
        words, code = _described(error)
        if code == INTERNAL_ERROR and os.environ.get("FORETRACE_DEBUG"):
            raise
        from foretrace.base.terminal import plain

        lines = [plain(line) for line in words.split("\n")]
        try:
            click.echo("foretrace: " + "\n".join(lines), err=True)
        except OSError:
            drop(sys.stderr)  # nobody can be told; the exit code says it
        return code


def _run(arguments: list[str] | None) -> int:
    try:
        result = foretrace.main(args=arguments, prog_name="foretrace", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as no_arguments:
        click.echo(no_arguments.format_message())
        return 2
    return result if isinstance(result, int) else 0


def _described(error: BaseException) -> tuple[str, int]:
    """What ended a command, in words, and the exit code; what is not foreseen is a bug."""
    if isinstance(error, ForetraceError):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        return error.format_message(), 2
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        signal = error.__cause__ or error  # Click has an error of its own for Ctrl+C
        return "stopped", 128 + getattr(signal, "number", 2)
    if isinstance(error, OSError):
        return _in_words(error), 2
    if isinstance(error, MemoryError):
        return "out of memory: free some, then run it again", 3
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        package = "" if name == "foretrace" else _PACKAGES.get(name, name)
        if package:
            return f"{package} is not installed: pip install {package}", 4
    return (
        f"this is a bug in foretrace: {type(error).__name__}: {error} (set FORETRACE_DEBUG=1 "
        "to see where)"
    ), INTERNAL_ERROR


def _in_words(problem: OSError) -> str:
    """What the operating system refused: a file by its name, or the output."""
    path, reason = problem.filename2 or problem.filename, problem.strerror or str(problem)
    named = "" if path is None else f"{os.fsdecode(path) if isinstance(path, bytes) else path}: "
    if limit := _shell_limit(problem.errno, reason):
        return f"{named}{limit}"
    if named:
        return f"{named}{reason}; check the path, its permissions and the disk"
    if problem.errno in _OUTPUT:
        drop(sys.stdout)
        return f"cannot write the output: {reason}; redirect it to another place"
    return reason


def _shell_limit(number: int | None, reason: str) -> str:
    """Which limit of the shell stopped the command; Polars states the number in its words."""
    import resource

    limits = {
        errno.EMFILE: (resource.RLIMIT_NOFILE, "", "n"),
        errno.EFBIG: (resource.RLIMIT_FSIZE, " bytes", "f"),
    }
    for known, (limit, unit, option) in limits.items():
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY and (known == number or f"(os error {known})" in reason):
            drop(sys.stdout)  # it may be that file
            return (
                f"{os.strerror(known)}: the limit is {most:,}{unit}; raise it with ulimit -{option}"
            )
    return ""
