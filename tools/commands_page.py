"""Write `docs/commands.md`, the help of every command: `python tools/commands_page.py`."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.cli import foretrace as program

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
HEAD = """# Commands

<!-- Written by `python tools/commands_page.py`; change the code, not this page. -->

`foretrace --help` lists these commands, and `foretrace COMMAND --help` prints the text below.

## Exit codes

| code | meaning |
|---|---|
| 0 | fine |
| 1 | a guess missed, a comparison regressed, `--strict` met lost data, or your own code raised |
| 2 | wrong usage, such as an unknown region, step or rung; the operating system refused a file |
| 3 | not a readable trace |
| 4 | a device or an optional package is missing; the message names the install command |
| 70 | a bug in foretrace; `FORETRACE_DEBUG=1` shows the traceback |
| 130 | stopped with Ctrl+C |

An unknown guess is exit code 1 as well with `--strict`, or where the variable `CI` is set.

Answers go to stdout; progress and warnings go to stderr. `--json` prints one JSON document and
nothing else. `NO_COLOR` is honoured.

## Shell completion

The shell completes commands, options, file names, rungs and pages. Add one line to the file that
your shell reads when it starts:

```sh
eval "$(_FORETRACE_COMPLETE=bash_source foretrace)"     # bash, in ~/.bashrc
eval "$(_FORETRACE_COMPLETE=zsh_source foretrace)"      # zsh, in ~/.zshrc
_FORETRACE_COMPLETE=fish_source foretrace | source      # fish, in ~/.config/fish/config.fish
```
"""


def page() -> str:
    """The whole help of each command."""
    top = program.make_context("foretrace", [], resilient_parsing=True)
    parts = [HEAD]
    for name in program.list_commands(top):
        command = program.get_command(top, name)
        if command is not None:
            parts.append(f"## foretrace {name}\n")
            parts += _helps(click.Context(command, top, name))
    return "\n".join(parts)


def _helps(ctx: click.Context) -> list[str]:
    """The help of a command and of the commands inside it."""
    ctx.max_content_width = 100
    ctx.terminal_width = 100
    texts = [f"```text\n{ctx.command.get_help(ctx)}\n```\n"]
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            inner = ctx.command.get_command(ctx, name)
            if inner is not None:
                texts += _helps(click.Context(inner, ctx, name))
    return texts


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
