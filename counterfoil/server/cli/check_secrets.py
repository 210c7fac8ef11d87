"""What `check` says of secrets: headers with one written down, and references that have no value here.

It goes by the file as it stands, whether or not anything else in it is wrong. No value is ever shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..secrets import SecretError, resolve

if TYPE_CHECKING:
    from ...registry.policy_check import Finding
    from ..doctor.basis import Basis

_ELSEWHERE = "auth"  # tokens have findings of their own, with their lines


def secret_findings(path: Path) -> list[Finding]:
    """Warnings of literals, then one note of every reference without a value."""
    from ..doctor.basis import read_basis  # noqa: PLC0415 (only this command and `doctor` need it)

    basis = read_basis(path, path.parent)
    return [*_literals(basis), *_without_value(basis)]


def _literals(basis: Basis) -> Iterator[Finding]:
    from ...registry.policy_check import Finding, Severity  # noqa: PLC0415 (as above)
    from ..config import Problem  # noqa: PLC0415 (as above)
    from ..config.errors import spell  # noqa: PLC0415 (as above)
    from ..config.lines import Places  # noqa: PLC0415 (as above)
    from ..http_tools.findings import LITERAL, is_written_down  # noqa: PLC0415 (as above)

    if basis.path is None or not basis.document:
        return
    places = Places.of(basis.path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    for key, text in _headers(basis):
        if is_written_down(str(key[-1]), text):
            problem = Problem(places.table(key), spell(key), places.line(key), LITERAL)
            yield Finding(Severity.WARNING, "", str(problem))


def _headers(basis: Basis) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, tool in basis.table("tools").items():
        for below in ("http", "probe", "compensation"):
            headers = _table(_table(tool).get(below)).get("headers")
            for header, text in _table(headers).items():
                if isinstance(text, str):
                    yield ("tools", name, below, "headers", header), text


def _without_value(basis: Basis) -> Iterator[Finding]:
    from ...registry.policy_check import Finding, Severity  # noqa: PLC0415 (as above)

    if basis.path is None:
        return
    folder = basis.path.parent
    absent = [reference for reference in basis.secrets_outside(_ELSEWHERE) if not _resolves(reference, folder)]
    if absent:
        said = f"no value here, now: {', '.join(absent)}; a server needs them among its own variables and files"
        yield Finding(Severity.NOTE, "", said)


def _resolves(reference: str, folder: Path) -> bool:
    try:
        resolve(reference, folder)
    except SecretError:
        return False
    return True


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
