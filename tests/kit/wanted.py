"""What the test asks of the zygote, as a value and as it travels."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a fork is to become."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str

    def message(self) -> bytes:
        """As it travels."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, message: bytes) -> Wanted:
        """What came."""
        return cls(**json.loads(message))
