"""What a text is before anything compares, hashes, cuts or embeds it.

Belongs here: the one preparation rule, folding for matching, text hashes, grapheme borders.
Does not belong here: tokens of a model (stores.embedders), terms and weights (retrieval.bm25), chunk rules (retrieval.chunking).
"""

from __future__ import annotations

import hashlib
import unicodedata
from bisect import bisect_right

import regex

PREPARATION_VERSION = "nfc-ctl-1"
"""Name of the rule in `prepare_text`. Part of every space_id: another rule gives other vectors."""

_CONTROL = regex.compile(r"[\p{Cc}--[\t\n\r]]", regex.V1)
_SURROGATE = regex.compile(r"\p{Cs}")
_VISIBLE = regex.compile(r"[^\p{Cc}\p{Cf}\p{Z}]")
_DIACRITIC = regex.compile(r"[\u0300-\u036f]")
# Known ways to hide what a line says: control characters, those that turn the direction of writing around, and tags (ASCII that
# nobody sees and models read).
_UNSEEN = regex.compile(
    r"[[\p{Cc}\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\u2028\u2029\U000e0000-\U000e007f]--[\t]]",
    regex.V1,
)
_SPACES = regex.compile(r"\s+")
_GRAPHEME = regex.compile(r"\X")
# đ and Đ have no decomposition: stripping marks alone leaves "Đieu" for "Điều".
_STROKED_D = str.maketrans({"đ": "d", "Đ": "D"})
_OPEN_SYLLABLE = regex.compile(r"([òóỏõọ])([ae])(?!\w)|([ùúủũụ])(y)(?!\w)")


def prepare_text(text: str) -> str:
    r"""Text as it is stored, hashed and embedded: NFC, no control characters, no lone surrogates, stripped.

    Tabs and line breaks stay, because paragraph borders matter later. A lone surrogate becomes U+FFFD: tokenizers refuse it.

    Example:
        >>> prepare_text(" mo\x00t\u0323 ")
        'mo ṭ'
    """
    return unicodedata.normalize("NFC", _CONTROL.sub(" ", _SURROGATE.sub("\ufffd", text))).strip()


def is_blank(text: str) -> bool:
    """Whether there is nothing to see: only spaces, control and format characters (zero-width spaces, soft hyphens)."""
    return _VISIBLE.search(text) is None


def show_unseen(text: str) -> str:
    r"""Text that neither steers a terminal nor hides what it says: line breaks and what else nobody sees by number, tabs left.

    Example:
        >>> show_unseen("a\x1b[2J")
        'a<U+001B>[2J'
    """
    # Most texts hold nothing unseen; asking first is twenty times quicker than a substitution.
    return text if text.isprintable() else _UNSEEN.sub(_name_unseen, text)


def in_one_line(text: str) -> str:
    r"""Text that is one line wherever it is printed, and shows what it holds; any space becomes one space.

    Example:
        >>> in_one_line(" a\n\u2028 b\x1b")
        'a b<U+001B>'
    """
    if text.isprintable() and "  " not in text:
        return text.strip()
    return show_unseen(_SPACES.sub(" ", text)).strip()


def hash_text(prepared: str) -> str:
    """SHA-256 of a prepared text, 64 hex digits; the text's identity in the embedding cache."""
    return hashlib.sha256(prepared.encode()).hexdigest()


def fold(text: str) -> str:
    """Lower case, Latin diacritics stripped, đ to d. For matching only: ma, má and mà fall together.

    Only the combining diacritics block is stripped, so vowel signs of other scripts keep their meaning.

    Example:
        >>> fold("Điều kiện HƯỞNG")
        'dieu kien huong'
    """
    bare = _DIACRITIC.sub("", unicodedata.normalize("NFD", text.lower()))
    return unicodedata.normalize("NFC", bare).translate(_STROKED_D)


def unify_tone_placement(text: str) -> str:
    """Lower-case NFC text with the tone of a final oa, oe, uy on its second vowel: ``hòa`` becomes ``hoà``. For matching only.

    Both spellings are correct Vietnamese and one body of law mixes them (a quarter of "thỏa" is written "thoả").

    Example:
        >>> unify_tone_placement("ủy ban, thỏa thuận, của, toàn")
        'uỷ ban, thoả thuận, của, toàn'
    """
    return _OPEN_SYLLABLE.sub(_move_tone, text)


def _name_unseen(found: regex.Match[str]) -> str:
    return f"<U+{ord(found[0]):04X}>"


def _move_tone(match: regex.Match[str]) -> str:
    toned, plain = match[1] or match[3], match[2] or match[4]
    vowel, tone = unicodedata.normalize("NFD", toned)
    return unicodedata.normalize("NFC", vowel + plain + tone)


def has_marks(text: str) -> bool:
    """Whether any letter carries a diacritic (đ counts); a Vietnamese query without any was typed without marks."""
    return bool(_DIACRITIC.search(unicodedata.normalize("NFD", text)) or "đ" in text or "Đ" in text)


def grapheme_borders(text: str) -> list[int]:
    r"""Offsets in code points at which a cut tears no user-perceived character, 0 and ``len(text)`` included.

    Example:
        >>> grapheme_borders("e\u0301\r\n")
        [0, 2, 4]
    """
    return [0, *(match.end() for match in _GRAPHEME.finditer(text))]


def last_border_before(borders: list[int], offset: int) -> int:
    """The largest of ``borders`` (ascending, starting with 0) that is not beyond ``offset``."""
    return borders[bisect_right(borders, max(offset, 0)) - 1]


def shorten(text: str, limit_chars: int) -> str:
    """The longest beginning of ``text`` with at most ``limit_chars`` code points that ends on a grapheme border."""
    if len(text) <= limit_chars:
        return text
    return text[: last_border_before(grapheme_borders(text), limit_chars)]
