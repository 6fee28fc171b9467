"""How a rung's traces are called; without torch, since recorded ones are found by the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.schema.rung import COMPILED, Choice, Rung, Setup


def file_name(rung: Rung, setup: Setup, choice: Choice) -> str:
    """`mlp_liger_64x128x768x3072_bf16`: runs of different sizes lie beside each other, each named
    by what it was.
    """
    label = (
        [] if choice.compiles and setup.variant == next(iter(rung.variants)) else [setup.variant]
    )
    label += [COMPILED] if choice.compiles else []
    label += [choice.mode] if choice.compiles and choice.mode != "default" else []
    words = sizes(rung, setup.values)
    return "_".join(
        [rung.name, *label, *words, setup.dtype, *(["cpu"] if setup.device == "cpu" else [])]
    )


def sizes(rung: Rung, values: Mapping[str, Any]) -> list[str]:
    """`64x128x768x3072`, then the switches that are on."""
    given = [(option, values[option.name]) for option in rung.options]
    numbers = "x".join(str(value) for _, value in given if value and type(value) is int)
    return [
        numbers,
        *(
            option.name if value is True else str(value)
            for option, value in given
            if isinstance(value, bool | str) and value != option.default
        ),
    ]
