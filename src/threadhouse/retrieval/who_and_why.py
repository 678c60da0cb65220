"""Who decides something and why, as people write it.

Belongs here: what both have to be before they are kept. Does not belong here: what is decided (stores).
"""

from __future__ import annotations

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.text import in_one_line, is_blank, prepare_text

LONGEST_REASON_CHARS = 2_000
"""A paragraph. More belongs into the document that the reason names."""


def check_who_and_why(needs: str, who: str, why: str) -> tuple[str, str]:
    r"""Both as they are kept: one line each, so that no reason can look like another entry of a list.

    Args:
        needs: Beginning of the sentence that refuses them: what needs who and why.

    Raises:
        ConfigurationError: One is missing, or the reason is a whole document.

    Example:
        >>> check_who_and_why("Closing it needs who closes it and why", "an", "no\nopen: 1")
        ('an', 'no open: 1')
    """
    who, why = in_one_line(prepare_text(who)), in_one_line(prepare_text(why))
    if is_blank(who) or is_blank(why) or len(why) > LONGEST_REASON_CHARS:
        message = f"{needs}, in 1 to {LONGEST_REASON_CHARS:,} characters."
        raise ConfigurationError(message)
    return who, why
