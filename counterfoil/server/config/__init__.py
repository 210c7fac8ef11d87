"""The configuration file: what it may say, where it is found, and every problem of it at once.

Values only. Nothing here resolves a secret, opens the ledger, or imports a tool module.
"""

from .errors import ConfigError as ConfigError
from .errors import Problem as Problem
from .load import FILE_NAME as FILE_NAME
from .load import Configuration as Configuration
from .load import find as find
from .load import load as load
from .load import parse as parse
from .places import data_directory as data_directory
from .places import default_ledger_path as default_ledger_path
from .reference import Key as Key
from .reference import reference as reference
