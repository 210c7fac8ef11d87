"""What known secrets look like, wherever they stand. A backstop: marked fields and names come first.

Patterns are linear in the text. A run of hexadecimal digits alone is no secret by its shape: digests and ids look
the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

_ASSIGNED: Final = (
    r"\b(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|client[_-]?secret)"
    r"[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"']?[^\s\"',;&]{4,}"
)
SHAPES: Final = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3}", 0),  # JWT and JWE
        (r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", 0),  # AWS access key ids
        (r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}", 0),
        (r"\bxox[abeoprs]-[A-Za-z0-9-]{8,}|\bxapp-[A-Za-z0-9-]{8,}", 0),  # Slack
        (r"\bAIza[A-Za-z0-9_-]{30,}", 0),  # Google
        (
            r"\b[sr]k[_-](?:live|test|ant|proj|or)[_-][A-Za-z0-9_-]{8,}|\bsk-[A-Za-z0-9]{20,}",
            0,
        ),  # Stripe, model providers
        (r"\b(?:bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
        (r"(?<=://)[^\s/:@]{1,256}:[^\s/@]{1,256}(?=@)", 0),  # user and password in a URL
        (
            _ASSIGNED,
            re.IGNORECASE,
        ),
    )
)
_SIGNS: Final = (
    r"-----begin|eyj|a[ksbc][ic]a|gh[pousr]_|github_pat_|glpat-|xox|xapp-|aiza|[sr]k[_-]|bearer|basic|://|"
    r"passw|pwd|secret|token|api[_-]?key|access[_-]?key|[a-z0-9+/_=-]{32}"
)
"""A part of everything that a shape or a random run can be; most texts have none, and one look is enough."""
_sign_in_lower_case: Final = re.compile(_SIGNS).search
_sign_in_any_case: Final = re.compile(_SIGNS, re.IGNORECASE).search
_LEAST_BITS: Final = 3.6  # of entropy in each character: 32 random base64 characters have about 4.4, words below 3.5


def may_hold_secret(text: str) -> bool:
    """False where no shape, and no run that could be random, is in the text."""
    if text.isascii():  # a search that itself ignores case takes four times as long
        return _sign_in_lower_case(text.lower()) is not None
    return _sign_in_any_case(text) is not None


def is_random(run: str) -> bool:
    """Whether a run of 32 or more base64 characters looks drawn at random: three kinds of character, high entropy."""
    kinds = sum(any(test(char) for char in run) for test in (str.islower, str.isupper, str.isdigit))
    if kinds < 3:  # noqa: PLR2004 (lower case, upper case and digits)
        return False
    counts = Counter(run).values()
    entropy = -sum(count / len(run) * math.log2(count / len(run)) for count in counts)
    return entropy >= _LEAST_BITS
