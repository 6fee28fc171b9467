"""A Hugging Face kernel repository, written from this package's own sources:
`python -m foretrace.kernels.hub FOLDER`.

    FOLDER/build.toml                          what kernel-builder reads
    FOLDER/README.md                           the card
    FOLDER/torch-ext/foretrace_geglu/...       the sources
    FOLDER/build/torch-universal/...           the built form, which `kernels` loads; pure Python,
                                               so the same sources

It loads without a network: `get_local_kernel(Path(FOLDER))`,
`LOCAL_KERNELS="foretrace/geglu=FOLDER"` with `get_kernel("foretrace/geglu", version=1)`, or
`LocalLayerRepository(Path(FOLDER), layer_name="GeGLUMLP")` with `kernelize`. Nothing of it is kept
in version control.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

NAME = "foretrace-geglu"
PYTHON_NAME = NAME.replace("-", "_")
VERSION = 1
LICENSE = "apache-2.0"

# What a kernel repository needs of this package: all that runs, nothing that measures or writes.
FILES = (
    "__init__.py",
    "activations.py",
    "glu.py",
    "layers.py",
    "mlp.py",
    "module.py",
    "routes.py",
    "steps.py",
    "support.py",
    "device/*.py",
    "tables/*.json",
)

_BUILD_TOML = f"""[general]
name = "{NAME}"
version = {VERSION}
license = "{LICENSE}"
backends = ["cpu", "cuda"]

[torch-noarch]
"""

_CARD = f"""---
library_name: kernels
license: {LICENSE}
---

# {NAME}

Gated units for GPUs (GeGLU, SwiGLU, ReGLU), alone and as a whole MLP, in Triton.

```python
from kernels import get_kernel

kernel = get_kernel("foretrace/geglu", version={VERSION}, trust_remote_code=True)
out = kernel.geglu(gate, up)
mlp = kernel.GeGLUMLP.from_module(layer.mlp)
```

Layers for `kernelize`: `GeGLUMLP`, `SwiGLUMLP`, `ReGLUMLP`. All work under `torch.compile` and have a backward.
Where the kernels do not run (a CPU, a card before Ampere), plain torch does, and says so once.
"""


def write_repository(folder: Path) -> Path:
    """Write the repository into `folder`, replacing an earlier one there, and return it."""
    sources = _sources()
    built = folder / "build" / "torch-universal"
    for place in (folder / "torch-ext" / PYTHON_NAME, built):
        shutil.rmtree(place, ignore_errors=True)
        for name, text in sources.items():
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    (folder / "build.toml").write_text(_BUILD_TOML)
    (folder / "README.md").write_text(_CARD)
    (built / "metadata.json").write_text(json.dumps(_metadata(sources), indent=2) + "\n")
    return folder


def _sources() -> dict[str, str]:
    """Relative path and text of every file of the repository's package."""
    here = Path(__file__).parent
    paths = sorted(path for pattern in FILES for path in here.glob(pattern))
    return {path.relative_to(here).as_posix(): path.read_text() for path in paths}


def _metadata(sources: dict[str, str]) -> dict[str, object]:
    """`id` names the loaded module and its operators, so it changes with the sources."""
    digest = hashlib.sha256(
        "".join(f"{name}\n{text}" for name, text in sources.items()).encode()
    ).hexdigest()[:8]
    return {
        "id": f"{PYTHON_NAME}_{digest}",
        "name": NAME,
        "version": VERSION,
        "license": LICENSE,
        "python-depends": [],
        "backend": {"type": "cuda"},
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m foretrace.kernels.hub FOLDER")
    print(write_repository(Path(sys.argv[1])))
