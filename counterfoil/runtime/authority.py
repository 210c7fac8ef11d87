"""What a grant is good for now: the scopes of the submission, less what its subject has lost since.

Time is T1's to look at. Who is known, and with which scopes, is told by whoever knows the configuration.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from ..ledger.grants import Renewal
from ..registry.vocabulary import ErrorCode
from .clock import micros
from .not_sent import RunSaysNoError
from .refusal import refuse

if TYPE_CHECKING:
    from ..registry.principal import Principal
    from .case import Within
    from .parts import Parts


def renewal_by(parts: Parts, principal: Principal) -> Renewal:
    """A fresh grant by whoever asks now: with the scopes of now, for as long as the configuration says."""
    scopes = json.dumps(sorted(principal.scopes))
    return Renewal(principal.subject, scopes, parts.clock.now(), micros(parts.settings.authority_s))


def as_of_now(parts: Parts, granted: Principal, within: Within | None) -> Principal:
    """The principal of a grant with what it still may.

    Raises:
        RunSaysNoError: the subject of its run is not known any more: the run waits for it.
        RefusedError: the subject of a direct call is not: nobody is left to renew its grant.
    """
    scopes = parts.scopes_now(granted)
    if scopes is None:
        if within is not None:
            raise RunSaysNoError("authority")
        raise refuse(
            ErrorCode.AUTHORITY_EXPIRED,
            f"{granted.subject} is not known here any more, so nothing is sent in its name. Whoever wants it asks "
            "for it as somebody who is.",
        )
    return granted if scopes == granted.scopes else replace(granted, scopes=granted.common(scopes))
