"""Everything a user can reach is written down where they would look, and nothing written down is missing."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from foretrace.cli import foretrace as group

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXT = "\n".join(page.read_text() for page in PAGES) + (ROOT / "README.md").read_text()
COMMANDS = group.list_commands(click.Context(group))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme_or_a_page(name: str) -> None:
    assert re.search(rf"foretrace {name}\b", TEXT), f"document `foretrace {name}` in README.md or docs/"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    waiting = [command]
    while waiting:
        one = waiting.pop()
        assert one is not None
        silent = [option.name for option in one.params if isinstance(option, click.Option) and not option.help]
        assert silent == []
        if isinstance(one, click.Group):
            waiting += [one.get_command(click.Context(one), inner) for inner in one.list_commands(click.Context(one))]


def test_the_readme_names_only_commands_there_are() -> None:
    named = set(re.findall(r"(?:^    |`)foretrace ([a-z]+)\b", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = "\n".join(line for line in page.read_text().splitlines() if not line.startswith("    "))
    targets = re.findall(r"\]\((?!http)([^)#\s]+)", prose)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES if f"docs/{page.name}" not in readme] == []
