"""Turns of a recording become observations, the same way for every format.

Theory of operation: an importer collects `Turn`s, each with the calls that the agent dispatched in
it, and `observations()` lays them out: usage on the first observation of its turn, the turn's
progress on each, and one observation that is not a call for a turn that dispatched nothing.

Source: spec controllers, section 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from loopcore.control.observations import Observation, Usage
from loopcore.recordings.accounting import CostLedger
from loopcore.recordings.model import Listed, Run

RESULT_BYTES_MAX = 64 * 1024
ERROR_WORDS_MAX = 6
_CUT_MARGIN = 4
# The bits of a byte that continues a character in UTF-8.
_KIND_BITS, _CONTINUATION = 0xC0, 0x80
NO_CALL = "no agent call"

_WORD = re.compile(r"[A-Za-z]+")
_TOKEN = re.compile(r"[^\s:,;()\[\]{}]+")


@dataclass(slots=True)
class Call:
    """One action that was dispatched; its result arrives later or never."""

    tool: str
    arguments: object
    result: str | None = None
    error_class: str | None = None
    progress: bool = False
    claims_done: bool = False


@dataclass(slots=True)
class Turn:
    """What one turn of the agent did and consumed; `cost` None is an unknown cost."""

    calls: list[Call] = field(default_factory=list[Call])
    model_calls: int | None = 1
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None
    error_class: str | None = None


@dataclass(slots=True)
class Imported:
    """What one file gave."""

    runs: list[Run] = field(default_factory=list[Run])
    listed: list[Listed] = field(default_factory=list[Listed])


def cut_result(text: str | None) -> tuple[str | None, str | None]:
    """Return the result cut at 64 KiB, and the fingerprint of the whole when it was cut."""
    if text is None or len(text) * _CUT_MARGIN <= RESULT_BYTES_MAX:
        return text, None
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= RESULT_BYTES_MAX:
        return text, None
    from loopcore.control.fingerprints import result_fingerprint

    end = RESULT_BYTES_MAX
    while data[end] & _KIND_BITS == _CONTINUATION:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass"), result_fingerprint(text)


def error_kind(text: str) -> str:
    """Return a short name for an error text: its first words, without names and values.

    Words with a digit, an underscore or a capital inside are values rather than words, so that the
    same complaint about another flight or table gives the same class.
    """
    first = text.strip().split("\n", 1)[0]
    words: list[str] = []
    for token in _TOKEN.findall(first):
        word = token.strip("'\"`.!?")
        if _WORD.fullmatch(word) and word[1:] == word[1:].lower():
            words.append(word.lower())
        if len(words) == ERROR_WORDS_MAX:
            break
    return "_".join(words) or "error"


def observations(turns: Sequence[Turn], *, progress_known: bool) -> tuple[Observation, ...]:
    """Return the observations of the turns, numbered from 1.

    Arguments: `progress_known` says whether a call that did not advance the task is known not to
    have (progress 0) or nothing is known of progress (None). A turn without a call waits for a
    person, so its progress is not measurable either way.
    """
    ledger = CostLedger()
    seen: list[Observation] = []
    for number, turn in enumerate(turns, start=1):
        usage = Usage(
            model_calls=turn.model_calls,
            tool_calls=len(turn.calls),
            input_tokens=turn.input_tokens,
            output_tokens=turn.output_tokens,
            cost_microunits=None if turn.cost is None else ledger.enter(turn.cost),
        )
        if not turn.calls:
            seen.append(
                Observation(turn=number, action=1, error_class=turn.error_class, usage=usage)
            )
            continue
        progress = int(any(call.progress for call in turn.calls)) if progress_known else None
        for index, call in enumerate(turn.calls, start=1):
            result, fingerprint = cut_result(call.result)
            seen.append(
                Observation(
                    turn=number,
                    action=index,
                    tool=call.tool,
                    arguments=call.arguments,
                    result=result,
                    result_fingerprint=fingerprint,
                    progress=progress,
                    error_class=call.error_class,
                    claims_done=call.claims_done,
                    usage=usage if index == 1 else Usage(),
                )
            )
    return tuple(seen)


def has_call(turns: Sequence[Turn]) -> bool:
    """Return whether any turn dispatched something."""
    return any(turn.calls for turn in turns)


def costs_known(turns: Sequence[Turn]) -> bool:
    """Return whether every turn that called a model has a recorded cost."""
    return all(turn.cost is not None for turn in turns if turn.model_calls != 0)
