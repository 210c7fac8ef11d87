"""What works on this machine with this configuration, found by looking: nothing is made, written or taken over.

Each check is a function from what was read of the configuration to findings. Printing them is the command line's.
"""

from .basis import Basis, read_basis
from .checks import examine
from .finding import Finding, Level

__all__ = ["Basis", "Finding", "Level", "examine", "read_basis"]
