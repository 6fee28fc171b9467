"""`foretrace --version`: the version alone on its first line, then what it runs with."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from foretrace.base.version import __version__

DRIVER = Path("/proc/driver/nvidia")


def version_lines() -> list[str]:
    """Programs read the first line. Neither torch nor a CUDA library is loaded for the others."""
    python = ".".join(map(str, sys.version_info[:3]))
    torch = installed("torch")
    return [
        f"foretrace {__version__}",
        f"python {python}",
        f"torch {torch}" if torch else "torch: not installed (reading needs none)",
        _card(DRIVER),
    ]


def installed(package: str) -> str:
    """The version of an installed package, from the name of its folder: importlib.metadata takes
    longer to import than the rest of this command.
    """
    for place in sys.path:
        with suppress(OSError):
            for name in os.listdir(place or "."):
                if found := re.fullmatch(rf"{package}-([^-]+)\.dist-info", name):
                    return found[1]
    return ""


def _card(driver: Path) -> str:
    """The cards, as the driver lists them: `card NVIDIA H200, NVIDIA H200 (driver 570.86.15)`."""
    models = []
    for file in sorted(driver.glob("gpus/*/information")):
        with suppress(OSError):
            lines = file.read_text("utf-8", "replace").splitlines()
            models += [line[6:].strip() for line in lines if line.startswith("Model:")]
    if not models:
        return "card: no NVIDIA driver"
    version = ""
    with suppress(OSError):
        words = (driver / "version").read_text("utf-8", "replace").partition("Module")[2].split()
        version = next((word for word in words if re.fullmatch(r"\d+\.[\d.]+", word)), "")
    return f"card {', '.join(models)}" + (f" (driver {version})" if version else "")
