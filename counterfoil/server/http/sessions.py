"""The sessions of the older protocols: the SDK's manager, which also says how many a subject has."""

from __future__ import annotations

from typing import Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from ...registry.principal import Principal

SESSIONS: Final = 1_000
"""Open sessions of all clients; one more is refused with 503."""
SESSIONS_EACH: Final = 250
"""Open sessions of one subject, so that none keeps out the others; one more is refused with 429."""
SESSION_IDLE_S: Final = 1_800.0


class Sessions(StreamableHTTPSessionManager):
    """As the SDK has it. Owners are named as `edge` names them: a tenant is an issuer."""

    def full_for(self, principal: Principal) -> bool:
        """True while this subject can open no further session."""
        mine = (principal.tenant, principal.subject)
        owners = self._session_owners.values()
        return sum((owner["issuer"], owner["subject"]) == mine for owner in owners) >= SESSIONS_EACH
