"""A far side in a process of its own: one request, one line of answer, or a death before or after its effect.

python -m tests.kit.far_side write|read REF
"""

from __future__ import annotations

import json
import os
import sys

from tests.kit.world import World


def main(what: str, ref: str) -> None:
    """Do one request; the switch `dies` says at which point this process ends without an answer, once."""
    world = World.here()
    dies = world.switches(ref).get("dies")
    first = "asked" not in world.marks(ref)
    world.mark(ref, "asked")
    if "refuse" in world.switches(ref):
        sys.stdout.write(json.dumps({"error": world.switches(ref)["refuse"]}))
        return
    if dies == "before" and first:
        os._exit(1)
    number = world.append(ref) if what == "write" else world.count(ref)
    if dies == "after" and first:
        os._exit(1)
    sys.stdout.write(json.dumps({"number": number}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
