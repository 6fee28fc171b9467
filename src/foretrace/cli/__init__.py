"""The command line: a thin file per command, found by name, loaded when asked for.

`main` is the only place that prints errors: one line on stderr, and the exit code of the contract.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from importlib import import_module

import click

INTERNAL_ERROR = 70


class Commands(click.Group):
    """Every module of this package is a command; its `command` object is imported only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__name__}.{name}").command
        return command


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from .. import __version__

        click.echo(f"foretrace {__version__}")
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def foretrace() -> None:
    """Guess first, then look: read, check and compare PyTorch profiler traces."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    import gc

    from ..errors import ForetraceError

    gc.set_threshold(200_000, 50, 50)  # a command makes many objects and no cycles, and ends soon
    try:
        result = foretrace.main(args=arguments, prog_name="foretrace", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except ForetraceError as error:
        _say(str(error))
        return error.exit_code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        _say(error.format_message())
        return 2
    except (click.Abort, KeyboardInterrupt):
        _say("stopped")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing more to say
        return 0
    except Exception as error:
        if os.environ.get("FORETRACE_DEBUG"):
            raise
        _say(f"this is a bug in foretrace: {type(error).__name__}: {error} (set FORETRACE_DEBUG=1 to see where)")
        return INTERNAL_ERROR


def _say(message: str) -> None:
    from ..render.safe import plain

    lines = [plain(line) for line in message.split("\n")]
    click.echo("foretrace: " + "\n".join(lines), err=True)


def run() -> None:
    """The console script."""
    sys.exit(main())
