"""Build the documentation site: `python tools/site.py` writes it to site/.

The pages of docs/ are written by hand. A line `<!-- site: rules -->` in one of them stands for what
the code tells about itself: the manuals of the rules, the grammars of kernel names, the help of the
commands, the claims of the articles, or one name of the package. The site holds it; the terminal
has `foretrace explain`, `--help` and `lab ladder --claim`, so no copy is kept in the repository.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

import foretrace
from foretrace.base import plugins
from foretrace.cli import foretrace as program
from foretrace.learn.claims import SECTIONS, claims, title
from foretrace.learn.ladder.climb import climb_recorded
from foretrace.learn.ladder.lines import claim_pages, elsewhere, score
from foretrace.look.rules import NEEDS, rules
from foretrace.work import families

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"^<!-- site: (\S+) -->$", re.MULTILINE)


def build() -> int:
    """Write the whole pages to build/docs, and the site from there."""
    pages = ROOT / "build" / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    for page in pages.glob("*.md"):
        page.write_text(PLACE.sub(lambda place: told(place[1]), page.read_text("utf-8")), "utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--strict", "--clean"], cwd=ROOT).returncode


def told(what: str) -> str:
    """What the code tells: of one of the lists below, else of a name of the package."""
    lists = {"rules": _rules, "families": _families, "commands": _commands, "claims": _claims}
    return lists[what]() if what in lists else _name(what)


def _rules() -> str:
    entries = []
    for rule in rules():
        needs = ", ".join(f"`{need}`" for need in NEEDS if need in rule.needs)
        manual = inspect.cleandoc(rule.check.__doc__ or "")
        entries.append(f"### {rule.name}\n\n{manual}\n\nNeeds: {needs}.")
    return "\n\n".join(entries)


def _families() -> str:
    """The docstring of each file, and the grammars that stand above its families."""
    parts = []
    for module in plugins.modules(families):
        source = inspect.getsource(module)
        grammars = re.findall(r"(?:^#.*\n){3,}", source, re.MULTILINE)
        parts += [
            f"### {module.__name__.rpartition('.')[2]}",
            inspect.cleandoc(module.__doc__ or ""),
            *(re.sub("(?m)^# ?", "", grammar).rstrip() for grammar in grammars),
        ]
    return "\n\n".join(parts)


def _commands() -> str:
    top = program.make_context("foretrace", [], resilient_parsing=True)
    return "\n\n".join(
        f"### foretrace {name}\n\n" + "\n\n".join(_helps(click.Context(command, top, name)))
        for name in program.list_commands(top)
        if (command := program.get_command(top, name)) is not None
    )


def _helps(ctx: click.Context) -> list[str]:
    """The help of a command and of the commands inside it."""
    ctx.max_content_width = ctx.terminal_width = 100
    texts = [f"```text\n{ctx.command.get_help(ctx)}\n```"]
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            if (inner := ctx.command.get_command(ctx, name)) is not None:
                texts += _helps(click.Context(inner, ctx, name))
    return texts


def _claims() -> str:
    document = climb_recorded()
    pages = claim_pages(document)
    parts = [f"{line}." for line in (score(document), *elsewhere(document))]
    for section in SECTIONS:
        numbers = [claim.number for claim in claims() if claim.section == section]
        parts += [f"## {title(section)}", *(pages[number] for number in numbers)]
    return "\n\n".join(parts)


def _name(name: str) -> str:
    """A public name: how it is called, its docstring, and the methods that it has of its own."""
    thing = getattr(foretrace, name)
    entries = [_entry(name, thing)]
    if inspect.isclass(thing):
        entries += [
            _entry(f"{name}.{method}", getattr(thing, method), "####")
            for method, value in vars(thing).items()
            if method[0] != "_" and inspect.isfunction(value)
        ]
    return "\n\n".join(entries)


def _entry(name: str, thing: object, head: str = "###") -> str:
    call = name
    if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, Exception)):
        call += str(inspect.signature(thing))
    return f"{head} {name}\n\n```python\n{call}\n```\n\n{inspect.getdoc(thing) or ''}"


if __name__ == "__main__":
    sys.exit(build())
