"""What is private in a text, and what is no secret."""

from __future__ import annotations

from typing import Any

import pytest

from foretrace.base.private import (
    cleaned,
    hide_addresses,
    hide_keys,
    hide_paths,
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


@looped(
    ("given", "shown"),
    [
        ("mail bob@example.org now", "mail * now"),
        ("at http://host/x?y", "at *"),
        ("10.0.0.1:80", "*:80"),
        ("train user=bob now", "train user=* now"),
        ("hostname: gpu7", "hostname: *"),
        ("user: embedding lookup", "user: * lookup"),
        ("host: launch", "host: launch"),
        ("fe80::1", "*"),
        ("c10::Half", "c10::Half"),
        ("c10d::allreduce_", "c10d::allreduce_"),
        ("fb::add", "fb::add"),
        ("at::native::add", "at::native::add"),
        ("torch 2.11.0+cu130", "torch 2.11.0+cu130"),
        ("transformer.h.0.attn", "transformer.h.0.attn"),
    ],
)
def test_addresses(given: str, shown: str) -> None:
    assert hide_addresses(given, lambda _: "*") == shown


@looped(
    ("given", "shown"),
    [
        ("load /home/bob/My Runs/a.pt", "load *"),
        ("/home/bob/run.py(3): main", "*(3): main"),
        ("/home/bob/env/lib/python3.11/site-packages/torch/x.py(3): f", "torch/x.py(3): f"),
        ("torch/nn/modules/module.py(1783): _call_impl", "torch/nn/modules/module.py(1783): _call_impl"),
        ("acme/model.py(1): f", "*(1): f"),
        ("threading.py(975): run", "threading.py(975): run"),
        ("train.py(9): <module>", "*(9): <module>"),
        (r"C:\Users\bob\x", "*"),
        ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 0/0"),
        ("fwd/bwd", "fwd/bwd"),
        ("org/model", "*"),
        ("torch.log", "torch.log"),
        ("a / b", "a / b"),
    ],
)  # fmt: skip
def test_paths(given: str, shown: str) -> None:
    assert hide_paths(given, lambda _: "*") == shown


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
    """The text after all rules, as `share` applies them."""
    for hide in (hide_keys, hide_addresses, hide_paths, hide_random):
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
