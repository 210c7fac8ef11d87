"""`counterfoil serve`, with its process id written to a file first, so that the play can kill exactly this process.

python -m counterfoil.server.demo.served PID_FILE --config F
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..cli import main

if __name__ == "__main__":
    pid_file = Path(sys.argv[1])
    written = pid_file.with_suffix(".new")
    written.write_text(str(os.getpid()), encoding="ascii")
    written.replace(pid_file)
    sys.exit(main(["serve", *sys.argv[2:]]))
