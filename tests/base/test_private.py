"""What is private in a text, and what is no secret."""

from __future__ import annotations

from typing import Any

import pytest

from foretrace.base.private import (
    cleaned,
    hide_keys,
    hide_random,
    hide_secrets,
)
from sweep import looped


@looped(
    ("given", "shown"),
    [
        ("DB_PASSWORD=hunter2", "DB_PASSWORD=***"),
        ('{"password": "hunter two", "x": 1}', '{"password": ***", "x": 1}'),
        ("--token=abc --lr 1", "--token=*** --lr 1"),
        ("--token abc --lr 1", "--token *** --lr 1"),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("https://bob:hunter2@host/x", "https://***@host/x"),
        ("https://bob:p@ss@host/x", "https://***@host/x"),
        ("run_hf_" + "a1B2" * 8, "run_***"),
        ("token embedding", "token embedding"),
        ("decode token=12", "decode token=12"),
        ("tokens=4096", "tokens=4096"),
        ("tokens per second: 81.5", "tokens per second: 81.5"),
        ("gemm_sk_kernel", "gemm_sk_kernel"),
        ("secret", "secret"),
        ("key: value", "key: value"),
    ],
)
def test_keys(given: str, shown: str) -> None:
    assert hide_keys(given, lambda _: "***") == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("x " + "0123456789abcdef" * 2, "x *"),
        ("pod a41c09b7e2d3 up", "pod * up"),
        ("f16f32bf16f32", "f16f32bf16f32"),
        ("id qT4_xK9vLm2_Zp7RwB", "id *"),
        ("triton__0d1d2d3d4d5d6d7d8d9d10d11d12d", "triton__0d1d2d3d4d5d6d7d8d9d10d11d12d"),
        ("bf16bf16_bf16f32_f32", "bf16bf16_bf16f32_f32"),
        ("MainloopSm90TmaGmmaWarpSpecialized", "MainloopSm90TmaGmmaWarpSpecialized"),
    ],
)
def test_chance(given: str, shown: str) -> None:
    assert hide_random(given, lambda _: "*") == shown


def test_a_value_is_read_with_its_key() -> None:
    value: Any = {
        "password": "hunter2",
        "args": ["--token=abc", "plain", 3, None, True],
        "ids": (1 << 70, -5, 0.5),
        "nested": {"api_key": ["abc"]},
    }
    assert cleaned(value, hide_secrets) == {
        "password": "***",
        "args": ["--token=***", "plain", 3, None, True],
        "ids": [None, -5, 0.5],
        "nested": {"api_key": ["***"]},
    }


def test_what_is_nested_too_deep_is_left_out() -> None:
    value: Any = "hunter2"
    for _ in range(5_000):
        value = [value]
    assert "hunter2" not in str(cleaned(value, hide_secrets))


def without(text: str) -> str:
    """The text after all rules, as a kept text has them."""
    for hide in (hide_keys, hide_random):
        text = hide(text, lambda found: f"hidden_{len(found)}")
    return text


@pytest.mark.sweep(4)
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
