"""The ratios of a run as an SVG: a bar each, the target as a line across it, everything also said in words.

Readable without colour: a bar that misses its target is hatched, and says so. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from .figures import Bound, Figure, Judged

WIDTH: Final = 960
_LEFT: Final = 330
_RIGHT: Final = 230
_ROW: Final = 26
_BAR: Final = 14
_TOP: Final = 64
_BARS: Final = WIDTH - _LEFT - _RIGHT
_TEXT: Final = 'font-family="system-ui, sans-serif" font-size="12" fill="#1a1a1a"'
_HATCH: Final = (
    '<defs><pattern id="missed" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#f4d7c8"/><line x1="0" y1="0" x2="0" y2="6" stroke="#8a3a12" stroke-width="3"/>'
    "</pattern></defs>"
)


def svg(figures: Sequence[Figure]) -> str:
    """A picture of the figures that have a ratio, on a logarithmic scale around 1."""
    drawn = [figure for figure in figures if figure.ratio is not None]
    height = _TOP + _ROW * len(drawn) + 40
    scale = _Scale.of(drawn)
    one = scale.x(1.0)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-labelledby="title desc">'
        ),
        '<title id="title">counterfoil bench: ratios to the reference</title>',
        f'<desc id="desc">{escape(" ".join(_sentence(figure) for figure in drawn))}</desc>',
        f'{_HATCH}<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="28" {_TEXT} font-weight="bold">counterfoil bench: how many times the reference</text>',
        f'<text x="{one:.1f}" y="{_TOP - 8}" {_TEXT} text-anchor="middle">1x</text>',
        f'<line x1="{one:.1f}" y1="{_TOP - 4}" x2="{one:.1f}" y2="{height - 36}" stroke="#666666"/>',
        *(_row(figure, _TOP + _ROW * place, scale) for place, figure in enumerate(drawn)),
        (
            f'<text x="16" y="{height - 14}" {_TEXT}>Bars begin at 1x, the scale is logarithmic. Lines are targets, '
            "a hatched bar misses it.</text>"
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Scale:
    """Where a ratio lies, from left to right."""

    def __init__(self, low: float, high: float) -> None:
        self._low = math.log(low)
        self._span = math.log(high) - self._low

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> _Scale:
        """A scale on which all ratios, all targets and 1 have room."""
        values = [figure.ratio.median for figure in figures if figure.ratio] + [
            figure.target.value for figure in figures if figure.target and figure.target.judged is Judged.RATIO
        ]
        shown = [value for value in values if value > 0]
        return cls(min([0.5, *shown]) / 1.1, max([2.0, *shown]) * 1.1)

    def x(self, ratio: float) -> float:
        """The place of a ratio."""
        return _LEFT + _BARS * (math.log(max(ratio, math.exp(self._low))) - self._low) / self._span


def _row(figure: Figure, y: int, scale: _Scale) -> str:
    ratio = figure.ratio.median if figure.ratio else 1.0
    ends = sorted((scale.x(1.0), scale.x(ratio)))
    fill = "url(#missed)" if figure.met is False else "#3d6fa5"
    middle = y + _BAR - 3
    parts = [
        f'<text x="{_LEFT - 10}" y="{middle}" {_TEXT} text-anchor="end">{escape(figure.title)}</text>',
        (
            f'<rect x="{ends[0]:.1f}" y="{y}" width="{max(ends[1] - ends[0], 1.0):.1f}" height="{_BAR}" fill="{fill}" '
            'stroke="#1a1a1a" stroke-width="0.5"/>'
        ),
        f'<text x="{WIDTH - _RIGHT + 12}" y="{middle}" {_TEXT}>{escape(_words(figure))}</text>',
    ]
    if figure.target is not None and figure.target.judged is Judged.RATIO:
        x = scale.x(figure.target.value)
        parts.append(
            f'<line x1="{x:.1f}" y1="{y - 4}" x2="{x:.1f}" y2="{y + _BAR + 4}" stroke="#000" stroke-width="3"/>'
        )
    return "".join(parts)


def _words(figure: Figure) -> str:
    said = f"{figure.ratio.median:.3g}x" if figure.ratio else ""
    if figure.target is None:
        return said
    sign = "at most" if figure.target.bound is Bound.AT_MOST else "at least"
    unit = "x" if figure.target.judged is Judged.RATIO else f" {figure.unit}"
    return f"{said}, {sign} {figure.target.value:g}{unit}: {'met' if figure.met else 'missed'}"


def _sentence(figure: Figure) -> str:
    return f"{figure.title}, beside {figure.against}: {_words(figure)}."
