"""What in a text is private: keys, addresses, paths. `share` and the run record use the same rules.

    hide_secrets("login hf_AbCdEf…")        # "login ***"

`keys` knows the forms of credentials, `places` those of paths and addresses, `chance` tells a
random token from a word, `values` looks inside JSON.
"""

from __future__ import annotations

from foretrace.base.private.keys import Replace, hide_keys, hide_random
from foretrace.base.private.places import hide_addresses, hide_paths

__all__ = ["Replace", "hide_addresses", "hide_keys", "hide_paths", "hide_random", "hide_secrets"]


def hide_secrets(text: str, replace: Replace = lambda secret: "***") -> str:
    """The text without credentials, of known forms and of others."""
    return hide_random(hide_keys(text, replace), replace)
