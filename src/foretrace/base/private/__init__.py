"""What in a text is private: keys, addresses, paths. `share` and the run record use the same rules.

    hide_secrets("login hf_AbCdEf…")        # "login ***"

`keys` knows the forms of credentials. Here are those of places: addresses of machines and people,
and paths of files. `cleaned` looks inside JSON.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from foretrace.base.patterns import regex
from foretrace.base.private.keys import (
    ASSIGNED,
    VALUE,
    Replace,
    applied,
    hide_keys,
    hide_random,
    rules,
    words,
)

_HEX = "[0-9A-Fa-f]{1,4}"
_START = "(?<![A-Za-z0-9:.])"
_SHORTENED = (
    rf"{_START}(?!c10d?::)(?=[A-Fa-f]{{0,3}}\d)(?:{_HEX}:){{1,7}}"  # with ::, and no namespace
)
_DOMAINS = "com|org|net|io|ai|dev|edu|gov|local|localdomain|internal|lan|corp|cloud|intra|svc"
_HOSTS = "ip|ec2|dgx|node|host|compute|login"
_ADDRESSES = rules(
    # user=bob
    (
        "user|login|owner|author|host|account|mail",
        r"(?i)((?<![a-z])(?:user(?:_?name)?|login|owner|author|host_?name|account|e?-?mail)"
        rf"{ASSIGNED}){VALUE}",
    ),
    ("://", r"(?i)(?<![a-z0-9])[a-z][a-z0-9+.-]{0,24}://[^\s\"'<>]*+"),
    ("@", r"(?<![\w.+-])[\w.+-]++@[\w.-]++"),
    (".", r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]{0,4}\d)"),
    # MAC and IPv6
    (
        ":|-",
        rf"{_START}(?:{_HEX}:){{3,15}}{_HEX}(?![A-Za-z0-9:])|{_START}(?:{_HEX}-){{5,7}}{_HEX}(?![A-Za-z0-9-])"
        rf"|{_SHORTENED}(?::{_HEX}){{1,7}}(?![A-Za-z0-9:])|{_SHORTENED}:(?![A-Za-z0-9:])",
    ),
    (
        ".",
        rf"(?i)(?<![\w.-])(?:[a-z0-9_-]{{1,63}}\.){{1,8}}(?:{_DOMAINS})(?:\.[a-z]{{2}})?(?![a-z0-9-])",
    ),
    ("-", rf"(?i)(?<![a-z0-9])(?:{_HOSTS})-[a-z0-9-]{{0,60}}\d[a-z0-9]{{0,8}}"),
    # numbers of telephones and cards
    (".|-", r"(?<![\w.+-])(?:\+\d{1,3}[ .-]?)?\(?\d{2,4}\)?(?:[.-]\d{2,4}){2,4}(?![A-Za-z0-9.-])"),
    (
        "+| ",
        r"\+\d{1,3}(?: ?\(?\d{2,4}\)?){2,5}(?![A-Za-z0-9])"
        r"|(?<![A-Za-z0-9])\d{4}(?: \d{4}){3}(?![A-Za-z0-9])",
    ),
)
# From where a path begins up to a quote, a line number or the end: folders have spaces.
_BODY = r"(?:(?!\(\d)[^\"'<>|;\n\r\t])*+"
_PATHS = rules(
    ("/|\\", r"(?<![\w/\\.@~$+-])[\w.@~+-]++(?:[\\/]++[\w.@~+-]++)++[\\/]?"),
    (
        ":/|\\|~|%2f|$",
        r"(?:[A-Za-z]:\\|(?<![A-Za-z0-9])[A-Za-z]:/|\\|~[\w.-]{0,64}[\\/]|%2[Ff]"
        rf"|\$\{{?\w{{1,64}}\}}?[\\/]){_BODY}",
    ),
    ("/", rf"(?<![A-Za-z0-9)\]>])/{{1,2}}(?=[\w.@~+-]){_BODY}"),
    (".", r"(?<![\w.\\/-])[\w-]++(?:\.[\w-]++)++"),
)
_FILES = words("""
    cfg ckpt cpp crt csv cu cuh dll exe gguf gz hpp html ini ipynb json jsonl npy npz onnx parquet
    pdf pem pickle pkl pt pth py pyc pyx safetensors sh so sql sqlite tar toml txt whl yaml yml zip
    zst
    """)
_INSTALLED = regex(r"[\\/](?:(?:site|dist)-packages|lib[\\/]python3\.\d+)(?=[\\/])")
_INSIDE = regex(r"(\w++)(?:[\\/][\w.-]++)*+(?:\.\w{1,4})?")
# Words that people join by a slash without meaning a path.
_SCOPES = words(
    "fwd bwd forward backward train training eval step loss optimizer model prefill decode"
)
# Their files are public, so a frame in them says nothing about who ran it.
_PUBLIC = sys.stdlib_module_names | words("""
    accelerate aiter apex bitsandbytes cupy datasets deepspeed diffusers einops fairscale flash_attn
    flashinfer flax foretrace functorch jax jaxlib liger_kernel lightning megatron numpy peft
    pytorch_lightning safetensors scipy sglang tensorrt_llm tokenizers torch torchao torchaudio
    torchrec torchtune torchvision tqdm transformer_engine transformers triton trl
    typing_extensions vllm xformers
    """)


def hide_addresses(text: str, replace: Replace) -> str:
    """The text without addresses of machines, people and pages."""
    return applied(_ADDRESSES, text, replace)


def hide_paths(text: str, replace: Replace) -> str:
    """The text without paths; a file of a public package keeps its path inside the package."""
    return applied(_PATHS, text, lambda path: _shown(path, replace))


def _shown(path: str, replace: Replace) -> str:
    inside = _INSTALLED.split(path)[-1]
    inside = inside if inside == path else inside[1:]
    package = _INSIDE.fullmatch(inside)
    if package and package[1] in _PUBLIC:
        return inside
    folders = re.split(r"[\\/]", path)
    if len(folders) == 1:
        words = path.lower().split(".")
        return replace(path) if words[-1] in _FILES or "so" in words[1:] else path
    public = all(folder.isdigit() or folder.lower() in _SCOPES for folder in folders)
    return path if public else replace(path)


__all__ = [
    "Replace",
    "cleaned",
    "hide_addresses",
    "hide_keys",
    "hide_paths",
    "hide_random",
    "hide_secrets",
]

_DEEPEST = 32  # what is nested deeper is left out
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # what a JSON writer takes


def hide_secrets(text: str, replace: Replace = lambda secret: "***") -> str:
    """The text without credentials, of known forms and of others."""
    return hide_random(hide_keys(text, replace), replace)


def cleaned(value: Any, clean: Callable[[str], str], key: str = "", depth: int = 0) -> Any:
    """A JSON value with every text, keys included, passed through `clean`.

    A text is cleaned together with its key, which may say what it is.
    """
    if isinstance(value, str):
        return clean(f"{key}{clean(value)}").removeprefix(key)
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return None
    if isinstance(value, dict | list | tuple) and depth >= _DEEPEST:
        return None
    if isinstance(value, dict):
        entries = [(str(name), each) for name, each in value.items()]
        return {clean(name): cleaned(each, clean, f"{name}=", depth + 1) for name, each in entries}
    if isinstance(value, list | tuple):
        return [cleaned(each, clean, key, depth + 1) for each in value]
    return value
