"""A call and its answer are built once for all runs that make them, with their fingerprints.

Theory of operation: the worlds are small, so the same calls and answers come again and again.
A `Toolbox` holds the policies of an application's tools and remembers, in bounded number, the call
for each name and arguments and the answer for each result; their fingerprints are those that a
controller would compute, the volatile names left out. Nobody changes a value that is shared.

Source: spec controllers, section 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from loopcore.control.fingerprints import action_fingerprint, result_fingerprint
from loopcore.control.limits import ToolPolicy

# How many calls, answers and states are remembered; the memory is of all worlds together.
CALLS_MAX = 1 << 14
STATES_MAX = 1 << 16

# The tool by which an agent claims to be done, where it does not only say so.
FINISH = "finish"

Value: TypeAlias = "str | int"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool with its arguments, and what the user's policy says of the tool."""

    tool: str
    arguments: dict[str, Value]
    fingerprint: str
    wait: bool
    effect: bool
    unsafe: bool


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back: a result or None, and the short name of an error or None."""

    result: str | dict[str, Value] | None
    fingerprint: str | None
    error: str | None = None


# The answer of an effect took place, but nobody got it.
LOST = Answer(result=None, fingerprint=None, error="response_lost")


class Toolbox:
    """The tools of one application.

    Arguments:
        tools: the policy of each tool by name, the finish apart.
    """

    def __init__(self, tools: Mapping[str, ToolPolicy]) -> None:
        self.tools = {**tools, FINISH: ToolPolicy(effect="none")}
        self._volatile = sorted({name for policy in tools.values() for name in policy.volatile})
        self.call = lru_cache(maxsize=CALLS_MAX)(self._call)
        self.says = lru_cache(maxsize=CALLS_MAX)(self._says)
        self.shows = lru_cache(maxsize=CALLS_MAX)(self._shows)

    def _call(self, tool: str, **arguments: Value) -> Call:
        policy = self.tools[tool]
        return Call(
            tool=tool,
            arguments=arguments,
            fingerprint=action_fingerprint(tool, arguments, policy.volatile),
            wait=policy.wait,
            effect=policy.effect != "none",
            unsafe=policy.effect == "unsafe",
        )

    def _says(self, text: str, error: str | None = None) -> Answer:
        """Return an answer that is text."""
        return Answer(result=text, fingerprint=result_fingerprint(text), error=error)

    def _shows(self, **fields: Value) -> Answer:
        """Return an answer that is an object; every tool's volatile names are left out."""
        return Answer(result=fields, fingerprint=result_fingerprint(fields, self._volatile))


@lru_cache(maxsize=STATES_MAX)
def state_digest(application: str, state: Hashable) -> str:
    """Return the digest of a state: 64 hexadecimal digits, the same in every process.

    Arguments:
        state: tuples of texts, integers and truth values, whose notation says all of it.
    """
    return hashlib.sha256(f"{application}:{state!r}".encode()).hexdigest()
