"""Hostile texts end: no rule takes more than linear time."""

from __future__ import annotations

import pytest

from foretrace.base.private import hide_addresses, hide_keys, hide_paths, hide_random


def without(text: str) -> str:
    """The text after all rules, as `share` applies them."""
    for hide in (hide_keys, hide_addresses, hide_paths, hide_random):
        text = hide(text, lambda found: f"hidden_{len(found)}")
    return text


@pytest.mark.parametrize(
    "text",
    [
        "Sm" + "1" * 50_000,
        "_Z" + "S" * 50_000,
        "_ZN" + "1" * 50_000,
        "a" * 50_000,
        "aB1" * 15_000,
        "a." * 12_000,
        "a_" * 25_000,
        "aB1x_" * 10_000,
        "a@" * 12_000,
        "a/" * 12_000,
        "/ " * 12_000,
        "\\" * 50_000,
        "1:" * 12_000,
        "1." * 12_000,
        "1-" * 12_000,
        "+1 " * 15_000,
        "password" * 12_000,
        "password " * 12_000,
        "token=" * 8_000,
        "--token" * 8_000,
        "a://" * 10_000,
        "://a" * 10_000,
        "-----BEGIN x-----" * 10_000,
        "eyJaaaaaa." * 20_000,
        "sk-" * 15_000,
        "AKIA" * 50_000,
        "$" * 50_000,
        "~" * 50_000,
        "%2f" * 15_000,
        '"' * 50_000,
        "x64" * 15_000,
        "node-" * 10_000,
        "-u " * 15_000,
        "CompiledFxGraph f" * 10_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_text_ends(text: str) -> None:
    """A kernel called `Sm` and forty digits took exponential time; 50 kB would take minutes
    if a rule were quadratic."""
    assert isinstance(without(text), str)
