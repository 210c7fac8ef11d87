"""Which names hide what they name: the one list for the ledger's projection and the registry's messages.

Names alone: a value is never looked at here. It imports nothing of ours.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NAMES: Final = re.compile(
    r"password|passwd|passphrase|authorization|cookie|secret(?!ary)|credential|apikey|privatekey|accesskey|signingkey|"
    r"encryptionkey|sessionkey|token$|^pwd$|pwd$|^auth$|^jwt$|^bearer$|^pin$|^cvv$|^cvc$|^otp$|^sessionid$"
)
_NOT_ALNUM: Final = re.compile(r"[^a-z0-9]+")


_LONGEST_KEPT: Final = 64


def is_secret_name(name: str) -> bool:
    """Whether a member of this name is hidden whatever it holds."""
    return _asked_before(name) if len(name) <= _LONGEST_KEPT else _is_secret(name)


def _is_secret(name: str) -> bool:
    return _NAMES.search(_NOT_ALNUM.sub("", name.lower())) is not None


_asked_before = lru_cache(maxsize=4096)(_is_secret)
"""The same few names come with every call."""
