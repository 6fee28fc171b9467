"""Plants secrets in every place of a trace, shares it, and counts what gets out.

cd tests && python -m show.share.planting --rounds 3
cd tests && python -m show.share.planting --rounds 3 --keep names
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import foretrace
from foretrace.show.share.publish import parse_keep, redact
from show.share import secrets
from show.share.test_redact import everything_in
from show.share.test_secrets import leaks


def escaped(place: str, forms: tuple[secrets.Form, ...], keep: frozenset[str]) -> list[str]:
    """The forms that get out of a place."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "trace.json"
        path.write_bytes(secrets.PLACES[place]([form.text for form in forms]).bytes())
        (folder / "out").mkdir()
        redact(foretrace.open(path, cache=False), folder / "out", keep)
        return leaks(everything_in(folder / "out"), forms)


def main() -> None:
    """Print how many got out, by form and by place."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", default="")
    args = parser.parse_args()
    keep, count, out = parse_keep(args.keep), 0, Counter[tuple[str, str]]()
    for number in range(args.rounds):
        forms = (
            (*secrets.FORMS, *secrets.planted(number + 2))
            if number == 0
            else secrets.planted(number + 2)
        )
        for place in secrets.PLACES:
            count += len(forms)
            out.update((form, place) for form in escaped(place, forms, keep))
    print(f"{sum(out.values()):,} of {count:,} got out")
    forms_out = Counter(form for form, _ in out.elements())
    for form, times in forms_out.most_common():
        places = sorted({place for each, place in out if each == form})
        print(f"{times:6}  {form}: {', '.join(places)}")


if __name__ == "__main__":
    main()
