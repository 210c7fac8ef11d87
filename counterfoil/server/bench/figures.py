"""What a measurement comes to: medians with their quartiles, the ratio of one to the other, and its target. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, quantiles
from typing import Any, Final

DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some samples, and the quartiles around it."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample.

        Raises:
            ValueError: there is none.
        """
        if not samples:
            raise ValueError("a spread: expected at least one sample, got none")
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1)
        low, middle, high = quantiles(samples, n=4, method="inclusive")
        return cls(middle, low, high, len(samples))

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "median": _rounded(self.median), "low": _rounded(self.low), "high": _rounded(self.high),
            "samples": self.samples,
        }  # fmt: skip


def ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Each sample over the one that was taken beside it, so that what slows a machine for a while slows both.

    Where the numbers of samples differ nothing was taken side by side, and the medians are compared.

    Raises:
        ValueError: a reference that is not above 0.
    """
    if any(sample <= 0 for sample in reference):
        raise ValueError(f"a reference: expected more than 0, got {min(reference)}")
    if len(ours) != len(reference):
        return [median(ours) / median(reference)]
    return [own / other for own, other in zip(ours, reference, strict=True)]


class Bound(StrEnum):
    """Which side of a target is good."""

    AT_MOST = "at_most"
    AT_LEAST = "at_least"


class Judged(StrEnum):
    """What a target is about."""

    RATIO = "ratio"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should reach."""

    bound: Bound
    value: float
    judged: Judged = Judged.RATIO

    def met_by(self, value: float) -> bool:
        """True if this value is on the good side, or on the line."""
        return value <= self.value if self.bound is Bound.AT_MOST else value >= self.value


def at_most(value: float, judged: Judged = Judged.RATIO) -> Target:
    """A ceiling."""
    return Target(Bound.AT_MOST, value, judged)


def at_least(value: float, judged: Judged = Judged.RATIO) -> Target:
    """A floor."""
    return Target(Bound.AT_LEAST, value, judged)


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured, beside what it is compared with.

    `against` says what that is. `reference` is None where it is not here to be measured; `missing` then says why.
    """

    name: str
    title: str
    unit: str
    against: str
    ours: Spread
    reference: Spread | None
    ratio: Spread | None
    target: Target | None = None
    missing: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        unit: str,
        ours: Sequence[float],
        reference: Sequence[float],
        *,
        against: str,
        target: Target | None = None,
    ) -> Figure:
        """The figure that these samples make; without a ratio where the reference is nothing at all."""
        ratio = Spread.of(ratios(ours, reference)) if min(reference) > 0 else None
        return cls(name, title, unit, against, Spread.of(ours), Spread.of(reference), ratio, target)

    @classmethod
    def alone(
        cls, name: str, title: str, unit: str, ours: Sequence[float], *, against: str, target: Target, missing: str
    ) -> Figure:
        """What is ours, beside a reference that is not here; nothing is said of its target."""
        return cls(name, title, unit, against, Spread.of(ours), None, None, target, missing)

    @property
    def group(self) -> str:
        """The measurement that it belongs to: what stands before the first dot of its name."""
        return self.name.partition(".")[0]

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing that it could be about."""
        if self.target is None:
            return None
        judged = self.ratio if self.target.judged is Judged.RATIO else self.ours
        return None if judged is None else self.target.met_by(judged.median)

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        target = self.target and {
            "judged": self.target.judged.value, "bound": self.target.bound.value, "value": self.target.value,
        }  # fmt: skip
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "ours": self.ours.wire(),
            "reference": {
                "what": self.against,
                "missing": self.missing,
                **(self.reference.wire() if self.reference else {}),
            },
            "ratio": self.ratio and self.ratio.wire(),
            "target": target,
            "met": self.met,
        }


def _rounded(value: float) -> float:
    """Four figures that count: a ratio and a time in milliseconds say no more."""
    return float(f"{value:.{DIGITS}g}")
