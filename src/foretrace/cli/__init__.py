"""The command line: a thin file per command, found by name, loaded when asked for.

`main` is the only place that prints errors: one line on stderr, and the exit code of the contract.
"""

from __future__ import annotations

import errno
import os
import pkgutil
import sys
from importlib import import_module

import click

INTERNAL_ERROR = 70
# where pip knows a module by another name
_PACKAGES = {"backports": "backports.zstd", "liger_kernel": "liger-kernel"}


class Commands(click.Group):
    """Every module of this package is a command; its `command` object is imported only when it is
    used.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(
            info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")
        )

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__name__}.{name}").command
        return command


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from foretrace.version import __version__

        click.echo(f"foretrace {__version__}")
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version.",
)
def foretrace() -> None:
    """Guess first, then look: read, check and compare PyTorch profiler traces."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    import gc

    from foretrace.errors import ForetraceError

    gc.set_threshold(200_000, 50, 50)  # a command makes many objects and no cycles, and ends soon
    try:
        result = foretrace.main(args=arguments, prog_name="foretrace", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except ForetraceError as error:
        _say(str(error))
        return error.exit_code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message())
        return 2
    except click.ClickException as error:
        _say(error.format_message())
        return 2
    except (click.Abort, KeyboardInterrupt):
        _say("stopped")
        return 130
    except BrokenPipeError:
        _drop_output()  # the reader left: nothing more to say
        return 0
    except OSError as problem:
        _say(_in_words(problem))
        return 2
    except Exception as error:
        if package := _missing_package(error):
            _say(f"{package} is not installed: pip install {package}")
            return 4
        if os.environ.get("FORETRACE_DEBUG"):
            raise
        _say(
            f"this is a bug in foretrace: {type(error).__name__}: {error} (set FORETRACE_DEBUG=1 "
            "to see where)"
        )
        return INTERNAL_ERROR


def _missing_package(error: Exception) -> str:
    """The package that an import did not find, as pip knows it; nothing when the error is another,
    or the module our own.
    """
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return "" if name == "foretrace" else _PACKAGES.get(name, name)


def _in_words(problem: OSError) -> str:
    """What the machine refused: a file by its name, or the output."""
    path, reason = problem.filename2 or problem.filename, problem.strerror or str(problem)
    if path is not None:
        return (
            f"{os.fsdecode(path) if isinstance(path, bytes) else path}: {reason}; check the "
            "path, its rights and the disk"
        )
    if problem.errno == errno.ENOSPC:
        _drop_output()
        return f"the output cannot be written: {reason}; send it elsewhere"
    return reason


def _drop_output() -> None:
    """What is still waiting to be written goes nowhere: Python would try once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str) -> None:
    from foretrace.render.safe import plain

    lines = [plain(line) for line in message.split("\n")]
    click.echo("foretrace: " + "\n".join(lines), err=True)
