"""Names that a question may call things by: addresses, ids, numbers, phrases; in the one form that they are compared in.

Belongs here: the form itself (`reference_key`, `phrase_key`), and which pieces of a sentence could be a name.
Does not belong here: looking names up (stores.thread_signals), what a found name is worth (retrieval.lexical_signals).

``nao.reference_key`` and ``nao.phrase_key`` in the migrations do the same to stored text; a test holds them together.
"""

from __future__ import annotations

import string
import unicodedata
from itertools import pairwise

import regex

from threadhouse.retrieval.text import prepare_text

MAX_KEY_CHARS = 200
"""Keys are cut here, on both sides: longer ones would not fit a database index, and no address comes near it."""

MAX_NAME_WORDS = 12
"""Longest name looked for in a sentence, in words: ``PEP 1 § What is a PEP?`` has seven, titles of laws up to twelve."""

# Everything below is spelled out so that PostgreSQL can do the same in any locale: ASCII letters only, no \s, no \w.
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_TO_ASCII = str.maketrans(
    string.ascii_uppercase + "Đđ" + _SPACES + "\t\r\n" + _DASHES,
    string.ascii_lowercase + "dd" + " " * (len(_SPACES) + 3) + "-" * len(_DASHES),
    _INVISIBLE,
)
_MARK = regex.compile(r"[\u0300-\u036f]")
_EDGE_MARKS = " .,;:!?()[]{}\"'`“”‘’«»<>…§/#*-_"
_REVISION = regex.compile(r"@[0-9]+$")
_ARTICLE = regex.compile(r"(^|[/ ])(?:d|dieu|article|art)[ .]*(?=[0-9])")
_LEADING_ZEROS = regex.compile(r"(^|[a-z _-])0+(?=[0-9])")
_BETWEEN_DIGITS = regex.compile(r"([0-9])[ _-]+(?=[0-9])")
_SEPARATORS = regex.compile(r"[ _-]+")

# The separators of nao.split_words: everything in a Latin text that is neither letter nor digit.
_BETWEEN_WORDS = regex.compile(
    r"[\u0001-/:-@\[-^`{-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    r"\u2000-\u206f\u20a0-\u215f\u2190-\u2bff\u3000-\u303f\ufe10-\ufe6f\uff00-\uff0f]+"
)
_TOKEN = regex.compile(r"\S+")
# What makes a word an id and not a word: a digit, or punctuation inside.
_ID_LIKE = regex.compile(r"[0-9]|[^\W_][-_/:#.][^\W_]")
_THREAD_WORDS = frozenset({"thread", "threads", "mach", "chude"})


def reference_key(name: str) -> str:
    """The form in which addresses and ids are compared.

    Marks, case, kind of dash, spaces and hyphens between letters, leading zeros and a trailing ``@revision`` do not matter, and
    ``Đ``, ``Điều`` and ``Article`` before a number are one word. Numbers stay apart: ``A-1-2`` is not ``A-12``.

    Example:
        >>> reference_key("PEP-0484"), reference_key("Điều 20.2.LQ.1"), reference_key("Đ32"), reference_key("TH-SOP-01/2@3")
        ('pep484', 'dieu20.2.lq.1', 'dieu32', 'thsop1/2')
    """
    key = _ascii(name)
    key = _REVISION.sub("", key.strip(_EDGE_MARKS)).strip(_EDGE_MARKS)
    key = _ARTICLE.sub(r"\1dieu ", key)
    key = _LEADING_ZEROS.sub(r"\1", key)
    key = _BETWEEN_DIGITS.sub(r"\1~", key)
    return _SEPARATORS.sub("", key).replace("~", "-")[:MAX_KEY_CHARS]


def phrase_key(phrase: str) -> str:
    """The form in which titles, aliases and labels are looked up: folded words with one space between them.

    Example:
        >>> phrase_key("  Hoàn-tiền: (Đợt 2)")
        'hoan tien dot 2'
    """
    return " ".join(_folded_words(phrase))[:MAX_KEY_CHARS]


def possible_reference_keys(text: str) -> list[str]:
    """Keys of every piece of a sentence that could be an address or an id, shortest pieces first, each once.

    A piece needs a digit or inner punctuation to be taken for one. A plain word counts only alone or after ``thread`` (``mạch``,
    ``chủ đề``): a thread with the id ``teacher`` is not meant by everyone who writes about teachers.
    """
    tokens = _TOKEN.findall(prepare_text(text).translate(_SPACE_ONLY))
    id_like = [_ID_LIKE.search(token) is not None for token in tokens]
    keys: dict[str, None] = {}
    for length in range(1, MAX_NAME_WORDS + 1):
        for start in range(len(tokens) - length + 1):
            # An address starts with its number, or with a word or two before it.
            if any(id_like[start : start + min(length, 3)]):
                keys[reference_key(" ".join(tokens[start : start + length]))] = None
    # Looked for in the whole first: a key for every word and every two of them would take longer than all of the above.
    letters = _SEPARATORS.sub("", _ascii(" ".join(tokens)))
    if any(word in letters for word in _THREAD_WORDS):
        for word, following in pairwise(tokens):
            if reference_key(word) in _THREAD_WORDS:
                keys[reference_key(following)] = None
                keys[reference_key(f"{word} {following}")] = None
        for first, second, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if reference_key(f"{first} {second}") in _THREAD_WORDS:
                keys[reference_key(following)] = None
    keys[reference_key(text)] = None
    keys.pop("", None)
    return list(keys)


def possible_phrase_keys(text: str) -> list[str]:
    """Folded keys of every run of up to MAX_NAME_WORDS words, each once: what a title, an alias or a label could be."""
    words = _folded_words(text)
    keys = {
        " ".join(words[start : start + length])[:MAX_KEY_CHARS]: None
        for length in range(1, MAX_NAME_WORDS + 1)
        for start in range(len(words) - length + 1)
    }
    return list(keys)


def _folded_words(text: str) -> list[str]:
    return [word for word in _BETWEEN_WORDS.split(_ascii(text)) if word]


def _ascii(text: str) -> str:
    bare = _MARK.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", bare).translate(_TO_ASCII)


_SPACE_ONLY = str.maketrans(dict.fromkeys(_SPACES, " ") | dict.fromkeys(_INVISIBLE, ""))
