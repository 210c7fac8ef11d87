from __future__ import annotations

import subprocess
import sys

import pytest

import counterfoil


def test_the_public_names_are_those_of_the_rooms() -> None:
    from counterfoil.registry.adapter import Call  # noqa: PLC0415 (compared, after the lazy import)
    from counterfoil.registry.outcome import Outcome, Probe  # noqa: PLC0415 (as above)
    from counterfoil.tools.decorator import tool  # noqa: PLC0415 (as above)

    assert (counterfoil.Call, counterfoil.Outcome, counterfoil.Probe, counterfoil.tool) == (Call, Outcome, Probe, tool)
    assert set(counterfoil.__all__) <= set(dir(counterfoil))


def test_importing_the_package_alone_loads_no_library() -> None:
    code = "import sys, counterfoil; print(counterfoil.__version__, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [counterfoil.__version__, "False"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    unknown = "tools_of"
    with pytest.raises(AttributeError, match="no attribute 'tools_of'"):
        getattr(counterfoil, unknown)
