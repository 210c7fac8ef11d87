"""The prompts: what a person picks in their client to have a chain planned, explained, reviewed or settled.

Each is short, shows calls that work as they stand, and embeds the state that it is about as data. None of them holds
what would suffice to approve anything.
"""

from .offered import Prompts as Prompts
from .offered import Shown as Shown
