"""Which names hide what they name: the one list for the ledger's projection and the registry's messages.

Names alone: a value is never looked at here. It imports nothing of ours.
"""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = re.compile(
    r"password|passwd|passphrase|authorization|cookie|secret(?!ary)|credential|apikey|privatekey|accesskey|signingkey|"
    r"encryptionkey|sessionkey|token$|^pwd$|pwd$|^auth$|^jwt$|^bearer$|^pin$|^cvv$|^cvc$|^otp$|^sessionid$"
)
_NOT_ALNUM: Final = re.compile(r"[^a-z0-9]+")


def is_secret_name(name: str) -> bool:
    """Whether a member of this name is hidden whatever it holds."""
    return _NAMES.search(_NOT_ALNUM.sub("", name.lower())) is not None
