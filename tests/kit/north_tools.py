"""The tools of the north desk."""

from __future__ import annotations

from tests.kit.two_desks import desk_tools

globals().update(desk_tools("north"))
