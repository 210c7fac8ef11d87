"""Where each key of a TOML text stands: a small scan of a text that `tomllib` has already accepted.

It decodes no values and reports no errors; a place that it cannot find belongs to the nearest table around it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

from .errors import KeyPath

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_SPACE = re.compile(r"[ \t]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


@dataclass(frozen=True, slots=True)
class Places:
    """The line (from 1) of every table, key and array element, and which of them are headers."""

    lines: dict[KeyPath, int]
    headers: frozenset[KeyPath]

    @classmethod
    def of(cls, text: str) -> Places:
        """Scan a text that `tomllib` accepts."""
        scan = _Scan(text)
        scan.run()
        return cls(scan.lines, frozenset(scan.headers))

    def line(self, path: KeyPath) -> int:
        """The line of a key, or of the nearest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def table(self, path: KeyPath) -> str:
        """The header that a key stands under, as the file writes it; empty above the first one."""
        while path and path not in self.headers:
            path = path[:-1]
        return ".".join(part for part in path if isinstance(part, str))


@dataclass
class _Scan:
    text: str
    at: int = 0
    lines: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    headers: set[KeyPath] = field(default_factory=set[KeyPath])
    lengths: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])

    def run(self) -> None:
        table: KeyPath = ()
        while self._blank() < len(self.text):
            if self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> KeyPath:
        line = self._line()
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        path = self._through_arrays(self._key())
        if many:
            self.lengths[path] = self.lengths.get(path, 0) + 1
            self.lines.setdefault(path, line)
            path = (*path, self.lengths[path] - 1)
        self.at = self.text.index("]", self.at) + (2 if many else 1)
        self.lines.setdefault(path, line)
        self.headers.add(path)
        return path

    def _through_arrays(self, key: list[str]) -> KeyPath:
        """A header below an array of tables speaks of the array's last element."""
        path: KeyPath = ()
        for part in key[:-1]:
            path = (*path, part)
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)
        return (*path, key[-1])

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        key = self._key()
        for depth in range(1, len(key) + 1):
            self.lines.setdefault((*table, *key[:depth]), line)
        self.at = self.text.index("=", self.at) + 1
        self._value((*table, *key))

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._space()
            quoted = _STRING.match(self.text, self.at)
            found = quoted or _BARE.match(self.text, self.at)
            if found is None:
                return parts
            self.at = found.end()
            parts.append(str(tomllib.loads(f"k = {found.group()}")["k"]) if quoted else found.group())
            self._space()
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        self._space()
        opening = self.text[self.at : self.at + 1]
        if opening == "[":
            self._members(path, "]")
        elif opening == "{":
            self._members(path, "}")
        elif found := _STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at):
            self.at = found.end()

    def _members(self, path: KeyPath, closing: str) -> None:
        self.at += 1
        count = 0
        while self._blank() < len(self.text) and self.text[self.at] != closing:
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "}":
                self._pair(path)
            else:
                self.lines.setdefault((*path, count), self._line())
                self._value((*path, count))
                count += 1
        self.at += 1

    def _blank(self) -> int:
        if found := _BLANK.match(self.text, self.at):
            self.at = found.end()
        return self.at

    def _space(self) -> None:
        if found := _SPACE.match(self.text, self.at):
            self.at = found.end()

    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1
