"""The MCP surface, in parts: what it asks of the other rooms, its lists, its answers, progress, deliveries, resources.

`counterfoil.server.mcp` puts them together; nothing here knows a transport.
"""

from .delivery import Deliveries as Deliveries
from .exchange import Exchange as Exchange
from .listeners import Listeners as Listeners
from .listing import Listing as Listing
from .ports import Asked as Asked
from .ports import BaseTool as BaseTool
from .ports import Catalogue as Catalogue
from .ports import Desk as Desk
from .ports import View as View
from .progress import Progress as Progress
from .resources import Resources as Resources
