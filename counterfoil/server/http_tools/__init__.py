"""Tools that need no Python: from the configuration's tables to contracts, requests and registered hands.

Nothing here sends anything, resolves a secret or opens a connection.
"""

from .checking import usable_hosts as usable_hosts
from .registering import register_http_tools as register_http_tools
from .registering import unfitting as unfitting
