"""Values of options that mean the same for every command that has them."""

from __future__ import annotations

from loopcore.errors import UsageError

SEED_MAX = 2**63 - 1
JOBS_MAX = 64
_SHOWN_MAX = 60


def integer(option: str, text: str, least: int, most: int) -> int:
    """Return the integer that a text spells in decimal digits; raise UsageError for any other."""
    digits = text.lstrip("0") or text[:1]
    # Python refuses to read thousands of digits, and the number of no longer text is in range.
    spelled = text.isascii() and text.isdigit() and len(digits) <= len(str(most))
    if not spelled or not least <= int(digits) <= most:
        shown = repr(text) if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]!r}..."
        raise UsageError(f"{option} takes an integer from {least} to {most}, not {shown}")
    return int(digits)


def share(option: str, text: str) -> float:
    """Return the share above 0 and below 1 that a decimal spells; UsageError for any other."""
    digits = text.removeprefix("0").removeprefix(".")
    spelled = text.startswith((".", "0.")) and digits.isascii() and digits.isdigit()
    if not spelled or len(text) > _SHOWN_MAX or not 0 < float(text) < 1:
        shown = repr(text) if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]!r}..."
        raise UsageError(f"{option} takes a decimal above 0 and below 1, not {shown}")
    return float(text)
