"""Where a ledger lies: what its address means, whether that place is safe, and files that only their owner can read.

SQLite's log needs working locks and shared memory, which network and FUSE file systems and folders that a
synchronising client rewrites do not give; such places are refused before anything is written.
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from .errors import (
    CannotRecordError,
    DamagedLedgerError,
    LedgerLockedError,
    Reason,
    UnsupportedLedgerError,
    reason_of,
)

_PREFIXES: Final = ("sqlite+aiosqlite:///", "sqlite:///")
_REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "beegfs"}
)
_LOCAL_FUSE: Final = frozenset({"fuse.fuse-overlayfs"})  # the root of a container that was started without root
_SYNCED: Final = re.compile(
    r"dropbox( \(.+\))?|onedrive( - .+)?|google ?drive|my drive|"
    r"icloud ?drive|com~apple~clouddocs|mobile documents|cloudstorage",
    re.IGNORECASE,
)
_MOUNTS: Final = Path("/proc/self/mountinfo")


def locate(url: str, base: Path) -> Path:
    """The file that a URL names; a relative one is taken from `base`.

    Raises:
        UnsupportedLedgerError: another scheme, a database in memory, or URL options.
    """
    if url.startswith("postgresql"):
        raise UnsupportedLedgerError("PostgreSQL is not available yet in this version; use sqlite+aiosqlite:///FILE")
    for prefix in _PREFIXES:
        if url.startswith(prefix):
            name = url.removeprefix(prefix)
            if not name or name == ":memory:" or "?" in name:
                raise UnsupportedLedgerError(
                    f"the ledger's url must name a file and have no options, got {url!r}; write {prefix}counterfoil.db"
                )
            return Path(os.path.normpath(base.absolute() / name))
    raise UnsupportedLedgerError(f"expected sqlite+aiosqlite:///FILE, got {url.partition(':')[0]!r}")


def refuse_unsafe(path: Path, mounts: str | None = None) -> None:
    """Refuse network file systems and synchronised folders. `mounts` is the text of Linux's mountinfo.

    Raises:
        UnsupportedLedgerError: with what was found and what to do.
    """
    real = Path(os.path.realpath(path.parent))
    for part in real.parts:
        if _SYNCED.fullmatch(part):
            raise UnsupportedLedgerError(
                f"{path} lies in the synchronised folder {part!r}, which may swap files under it; choose another"
            )
    if str(real).startswith("\\\\"):
        raise UnsupportedLedgerError(f"{path} lies on a network share; the ledger needs a local disk")
    if mounts is None:
        mounts = _MOUNTS.read_text(errors="surrogateescape") if _MOUNTS.exists() else ""
    kind = _file_system(real, mounts)
    if kind in _REMOTE or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE) or kind == "fuse":
        raise UnsupportedLedgerError(f"{path} lies on a {kind} file system; the ledger needs a local disk")


def _file_system(folder: Path, mounts: str) -> str:
    """The type of the file system that holds `folder`, or "" (proc(5): fields around a lone dash)."""
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:  # noqa: PLR2004 (the mount point is the fifth field)
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if folder.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def make_private(path: Path) -> None:
    """Make the folder (0700) and the file (0600) if they are missing; take a group's and others' rights to the file.

    SQLite gives its log and its shared memory the rights of the database. A folder that is there is left as it is.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if os.name == "posix" and path.stat().st_mode & 0o077 and path.stat().st_uid == os.geteuid():
            path.chmod(0o600)


def publish(target: Path, fill: Callable[[Path], None]) -> bool:
    """Make a private file whose name appears only once its content is whole and durable; False if there is one.

    Raises:
        UnsupportedLedgerError: the file system has no hard links, the one portable way not to replace a rival's.
    """
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        fill(draft)
        _sync(draft)
        try:
            os.link(draft, target)
        except FileExistsError:
            return False
        except OSError as error:
            raise UnsupportedLedgerError(f"{target} cannot be made without risk: {error}") from error
    finally:
        draft.unlink()
    if os.name == "posix":
        _sync(target.parent)
    return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def connect_read_only(path: Path, *, timeout_s: float = 5.0) -> sqlite3.Connection:
    """A connection of the bare driver that can change nothing. Text that is no UTF-8 is read, with marks, not refused.

    Raises:
        sqlite3.OperationalError: there is no such file.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=timeout_s, isolation_level=None
    )
    connection.text_factory = _lenient_text
    connection.execute("PRAGMA query_only = 1")
    return connection


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """A read-only connection whose errors say what is wrong with the file.

    Raises:
        DamagedLedgerError: it is no database, no ledger, or cannot be read to its end.
        LedgerLockedError: another process held it for too long.
        CannotRecordError: it is not there, or may not be read.
    """
    try:
        with closing(connect_read_only(path)) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        reason = reason_of(error)
        if reason is Reason.LOCKED:
            raise LedgerLockedError(f"{path} is locked by another process; end it or try again ({error})") from error
        if reason is Reason.SCHEMA:
            raise DamagedLedgerError(f"{path} is not a ledger of this program ({error}); name another file") from error
        if reason is Reason.DAMAGED:
            raise DamagedLedgerError(f"{path} is not a sound database ({error}); restore it from a backup") from error
        raise CannotRecordError(reason or Reason.IO, f"{path} cannot be read: {error}") from error


def _lenient_text(data: bytes) -> str:
    return data.decode(errors="replace")
