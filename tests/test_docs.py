"""Everything a user can reach is written down where they would look, and nothing written down is
missing.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

import foretrace
from foretrace import recordings
from foretrace.cli import foretrace as group
from foretrace.sources.limits import Limits, parse_limits

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TEXT = "\n".join(page.read_text() for page in PAGES) + (ROOT / "README.md").read_text()
COMMANDS = group.list_commands(click.Context(group))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme_or_a_page(name: str) -> None:
    assert re.search(rf"foretrace {name}\b", TEXT), (
        f"document `foretrace {name}` in README.md or docs/"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    waiting = [command]
    while waiting:
        one = waiting.pop()
        assert one is not None
        silent = [
            option.name
            for option in one.params
            if isinstance(option, click.Option) and not option.help
        ]
        assert silent == []
        if isinstance(one, click.Group):
            waiting += [
                one.get_command(click.Context(one), inner)
                for inner in one.list_commands(click.Context(one))
            ]


def test_the_readme_names_only_commands_there_are() -> None:
    named = set(
        re.findall(
            r"(?:^    |`)foretrace ([a-z]+)\b", (ROOT / "README.md").read_text(), re.MULTILINE
        )
    )
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


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_every_limit_is_documented_with_its_default() -> None:
    settings = re.findall(r"^\| `(\w+=\w+)` \|", _page("look.md"), re.MULTILINE)
    assert [setting.partition("=")[0] for setting in settings] == [
        field.name for field in fields(Limits)
    ]
    assert parse_limits(tuple(settings)) == Limits()
    options = {
        option.name: option for option in group.get_command(click.Context(group), "look").params
    }  # type: ignore[union-attr]
    assert all(f" {field.name}" in options["limit"].help for field in fields(Limits))  # type: ignore[attr-defined]


def test_every_table_is_documented_with_its_columns() -> None:
    trace = foretrace.open(recordings.traces()["mlp_eager"], cache=False)
    rows = re.findall(r"^\| `(\w+)` \| .* \| ((?:`\w+` ?)+) \|$", _page("sql.md"), re.MULTILINE)
    told = {name: re.findall(r"`(\w+)`", columns) for name, columns in rows}
    assert told == {name: trace.table(name).columns for name in trace.table_names()}


def test_the_queries_of_the_page_run() -> None:
    trace = foretrace.open(recordings.traces()["mlp_eager"], cache=False)
    queries = re.findall(
        r"^    (?:foretrace sql TRACE \")?(select [^\"\n]+)", _page("sql.md"), re.MULTILINE
    )
    assert len(queries) == 3
    assert all(trace.sql(query).height for query in queries)


def test_every_public_name_is_documented() -> None:
    missing = [
        name
        for name in foretrace.__all__
        if not name.startswith("_") and not re.search(rf"`{name}[(`]", _page("python.md"))
    ]
    assert missing == []
