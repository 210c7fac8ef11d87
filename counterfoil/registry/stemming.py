"""Words for the search: how a text is cut into terms, and which endings do not matter. English, and no dependency.

Scripts without spaces between words are cut into pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

TERM_MAX = 40
"""Characters of one term; the rest of a longer word is not looked at."""
RUN_MAX: Final = 400
"""Letters and digits in a row that are looked at."""
STEM_MIN: Final = 3
"""Letters, one of them a vowel, that must remain of a word."""

_STOP = """
a about all also an and any are as at be been but by can could did do does each for from had has have how i if in
into is it its me my need no not of on or our over please should so some such than that the their them then there
these they this those to using via want was we were what when where which while who will with would you your
"""
STOP_WORDS: Final = frozenset(_STOP.split())

_RUN = re.compile(r"[^\W_]+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|[A-Z]+|\d+")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_VOWEL = re.compile(r"[aeiouy]")
_VERBAL = re.compile(r"(?<=.{5})at$")

# The first that fits goes, longer ones before shorter, and what stands beside it comes.
_ENDINGS: Final = (
    ("iveness", ""), ("fulness", ""), ("ization", "iz"), ("ability", "abl"), ("ibility", "ibl"), ("ically", "ic"),
    ("ingly", ""), ("ment", ""), ("ness", ""), ("ance", ""), ("ence", ""), ("able", ""), ("ible", ""), ("ical", "ic"),
    ("ally", "al"), ("ing", ""), ("ion", ""), ("ity", ""), ("ive", ""), ("ful", ""), ("ed", ""), ("er", ""),
    ("or", ""), ("ly", ""), ("e", ""), ("y", "i"),
)  # fmt: skip


def terms(text: str) -> list[str]:
    """The terms of a text in their order, stop words left out."""
    return list(chain.from_iterable(map(_terms_of, _runs(text))))


def words(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The words of a text, each as it was written and as its terms; a stop word has none.

    Identifiers are cut at underscores, at changes of case and between letters and digits. Two pieces of one word are
    also a term together, so that `GitHub` and `github` meet; each of them has it.
    """
    for run in _runs(text):
        yield from _cut(run)


def stem(word: str) -> str:
    """The word without its ending; words that are short, not ASCII or no plain letters stay as they are."""
    if len(word) <= STEM_MIN or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending, replacement in _ENDINGS:
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= STEM_MIN and _VOWEL.search(rest):
            word = _undouble(rest) if ending in ("ing", "ed", "er") else rest + replacement
            break
    return _VERBAL.sub("", word)


def _runs(text: str) -> list[str]:
    return [run[:RUN_MAX] for run in _RUN.findall(unicodedata.normalize("NFKC", text))]


@lru_cache(maxsize=20_000)
def _terms_of(run: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for _, found in _cut(run) for term in found))


@lru_cache(maxsize=20_000)
def _cut(run: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if _UNSPACED.search(run):
        return ((run[:TERM_MAX], _pairs(run)),)
    pieces = [piece.casefold()[:TERM_MAX] for piece in _PIECE.findall(run)]
    pairs = [stem((one + other)[:TERM_MAX]) for one, other in pairwise(pieces)]
    return tuple(
        (word, () if word in STOP_WORDS else (stem(word), *pairs[max(at - 1, 0) : at + 1]))
        for at, word in enumerate(pieces)
    )


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _undouble(word: str) -> str:
    return word[:-1] if word[-1] == word[-2] and word[-1] not in "lsz" else word


def _pairs(run: str) -> tuple[str, ...]:
    run = run.casefold()
    return tuple(run[at : at + 2] for at in range(len(run) - 1)) or (run,)
