"""Names of files, which a structured log writes once and then refers to by number."""

from __future__ import annotations

from typing import Any


class Strings:
    """The names of one log file; each process numbers its own."""

    def __init__(self) -> None:
        self.known: dict[int, dict[int, str]] = {}
        self.missing = 0

    def add(self, pid: int, value: object) -> bool:
        """Learn one; False when the value is not as torch writes it."""
        match value:
            case [str(text), int(number)]:
                self.known.setdefault(pid, {})[number] = text
                return True
        return False

    def resolve(self, pid: int, value: Any) -> Any:
        """The value, with names in place of the numbers in the stack frames inside of it."""
        if isinstance(value, dict):
            found = {key: self.resolve(pid, inside) for key, inside in value.items()}
            if type(number := found.get("filename")) is int:
                found["filename"] = self._name(pid, number)
            return found
        if isinstance(value, list):
            return [self.resolve(pid, inside) for inside in value]
        return value

    def _name(self, pid: int, number: int) -> str:
        """One name; "" for one that the log does not hold."""
        found = self.known.get(pid, {}).get(number)
        if found is None:  # of the process that this one was forked from
            others = {names[number] for names in self.known.values() if number in names}
            found = others.pop() if len(others) == 1 else None
        self.missing += found is None
        return found or ""
