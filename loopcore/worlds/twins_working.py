"""Pairs in which every call is another one, and only what is achieved tells the two apart.

Theory of operation: as in the module of repeating pairs. Here the pathology varies its calls, so
that comparing calls is of no use; the verdict lies in the error classes, the claims, the state or
the measure.

Source: spec control, section 4; incidents 1.3, 2.2 to 2.4, 2.9 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from loopcore.worlds.twins_model import Both, Scene, Seen

# Where only every second turn can be a new best.
GAP_MAX_HALF = 2
# A client tries a call once and again up to three times; a verifier that is only busy answers the
# third time at the latest.
FAILURES_RANGE = (1, 3)
SILENCES_RANGE = (1, 2)
# A slow start reaches its first success this many turns after the window has passed.
SLOW_EXTRA = (1, 4)
_ERRORS = ("not_found", "syntax", "type", "timeout", "permission", "conflict", "range")
_TOOLS = 4
_ROUTINE = ("search", "move", "fix")
_THOUGHTS = 2


def reworded_search(scene: Scene) -> Iterator[Both]:
    """Other words each time and one answer: nothing was found, or something was filed."""
    tool, bests = scene.tool("send"), scene.new_bests()
    for turn in count():
        arguments = {"text": f"{scene.word(turn)} {scene.word(turn + 1)}"}
        yield (
            Seen(tool=tool, arguments=arguments, result="ok", state="empty"),
            Seen(
                tool=tool,
                arguments=arguments,
                result="ok",
                state=f"{turn} filed",
                progress=next(bests),
            ),
        )


def unmeasured_rewording(scene: Scene) -> Iterator[Both]:
    """The same where nothing measures progress, so that only the state tells."""
    for same, other in reworded_search(scene):
        yield (
            Seen(
                tool=same.tool,
                arguments=same.arguments,
                result="ok",
                state=same.state,
                progress=None,
            ),
            Seen(
                tool=other.tool,
                arguments=other.arguments,
                result="ok",
                state=other.state,
                progress=None,
            ),
        )


def edit_and_test(scene: Scene) -> Iterator[Both]:
    """Edits and one test run in turn: the failures stay, or fall now and then."""
    edit, test, bests = scene.tool("edit"), scene.tool("test"), scene.new_bests(GAP_MAX_HALF)
    failing = scene.between((40, 90))
    left = failing
    for turn in count():
        written = Seen(
            tool=edit, arguments={"patch": f"{scene.word(turn)}"}, result="ok", state=f"tree {turn}"
        )
        yield written, written
        best = next(bests)
        left -= best
        yield (
            Seen(tool=test, arguments={}, result={"failing": failing}, state=f"tree {turn}"),
            Seen(
                tool=test,
                arguments={},
                result={"failing": left},
                state=f"tree {turn}",
                progress=best,
            ),
        )


def reread(scene: Scene) -> Iterator[Both]:
    """One file read again after another command each time: it is as it was, or has changed."""
    run, read, bests = scene.tool("run"), scene.tool("read"), scene.new_bests(GAP_MAX_HALF)
    for turn in count():
        command = {"command": scene.word(turn)}
        yield (
            Seen(tool=run, arguments=command, result="exit 0", state="tree"),
            Seen(tool=run, arguments=command, result="exit 0", state=f"tree {turn}"),
        )
        yield (
            Seen(tool=read, arguments={}, result="as before", state="tree"),
            Seen(
                tool=read,
                arguments={},
                result=f"version {turn}",
                state=f"tree {turn}",
                progress=next(bests),
            ),
        )


def batch(scene: Scene) -> Iterator[Both]:
    """One routine of three calls: over the same item again, or over one item after the other."""
    tools, bests = [scene.tool(verb) for verb in _ROUTINE], scene.new_bests()
    for turn in count():
        item, phase = divmod(turn, len(_ROUTINE))
        yield (
            Seen(
                tool=tools[phase],
                arguments={"file": scene.word(0)},
                result="ok",
                state=f"phase {phase}",
            ),
            Seen(
                tool=tools[phase],
                arguments={"file": scene.word(item)},
                result="ok",
                state=f"step {turn}",
                progress=next(bests),
            ),
        )


def error_class(scene: Scene) -> Iterator[Both]:
    """Failures under changing tools and arguments: of one cause, or each of another."""
    tools, bests = [scene.tool(f"try{n}") for n in range(_TOOLS)], scene.new_bests()
    errors = scene.random.sample(_ERRORS, len(_ERRORS))
    for turn in count():
        tool = tools[turn % _TOOLS]
        arguments, result = {"attempt": scene.word(turn)}, f"failed: {scene.word(turn + 3)}"
        yield (
            Seen(tool=tool, arguments=arguments, result=result, error=errors[0]),
            Seen(
                tool=tool,
                arguments=arguments,
                result=result,
                error=errors[turn % len(errors)],
                progress=next(bests),
            ),
        )


def retry(scene: Scene) -> Iterator[Both]:
    """A call retried after a time-out: it never succeeds, or does after a few tries each."""
    tool, item = scene.tool("fetch"), 0
    while True:
        failures, item = scene.between(FAILURES_RANGE), item + 1
        never = Seen(tool=tool, arguments={"item": 1}, result="no answer", error="timeout")
        for _ in range(failures):
            yield (
                never,
                Seen(tool=tool, arguments={"item": item}, result="no answer", error="timeout"),
            )
        yield (
            never,
            Seen(tool=tool, arguments={"item": item}, result=f"answer {item}", progress=1),
        )


def claims(scene: Scene) -> Iterator[Both]:
    """A claim after each call, refused: for the same lack, or each for another one, after work."""
    tool = scene.tool("work")
    for turn in count(1):
        arguments = {"part": scene.word(turn)}
        # The claim comes first, so that the onset is a claim.
        yield (
            Seen(result="3 parts missing", state="parts", claims_done=True, verified=False),
            Seen(
                result=f"part {turn} missing",
                state=f"parts {turn}",
                claims_done=True,
                verified=False,
            ),
        )
        yield (
            Seen(tool=tool, arguments=arguments, result="ok", state="parts"),
            Seen(
                tool=tool, arguments=arguments, result="ok", state=f"parts {turn + 1}", progress=1
            ),
        )


def verifier(scene: Scene) -> Iterator[Both]:
    """Claims without an answer: the verifier is broken, or answers the third time at the latest."""
    part = 0
    while True:
        part += 1
        for _ in range(scene.between(SILENCES_RANGE)):
            silent = Seen(claims_done=True, verified=None, progress=None)
            yield silent, silent
        answered = Seen(
            claims_done=True, verified=False, result=f"part {part} missing", state=f"parts {part}"
        )
        yield Seen(claims_done=True, verified=None, progress=None), answered
        tool, arguments = scene.tool("work"), {"part": scene.word(part)}
        yield (
            Seen(claims_done=True, verified=None, progress=None),
            Seen(tool=tool, arguments=arguments, result="ok", state=f"done {part}", progress=1),
        )


def regained_ground(scene: Scene) -> Iterator[Both]:
    """A score that falls and rises: back to where it was, or a little higher each time."""
    tool, high, drop = scene.tool("tune"), scene.between((50, 80)), scene.between((1, 9))
    best = high
    for turn in count():
        arguments, falls = {"setting": f"{scene.word(turn)}"}, turn % 2 == 0
        best += 0 if falls else 1
        yield (
            Seen(
                tool=tool,
                arguments=arguments,
                result={"score": high - drop if falls else high},
                progress=-1 if falls else 0,
            ),
            Seen(
                tool=tool,
                arguments=arguments,
                result={"score": best - drop if falls else best},
                progress=-1 if falls else 1,
            ),
        )


def thinking(scene: Scene) -> Iterator[Both]:
    """Turns of text without a call: for ever, or a few before each piece of work."""
    tool = scene.tool("work")
    for turn in count(1):
        for _ in range(scene.between((1, _THOUGHTS))):
            yield Seen(), Seen()
        yield (
            Seen(),
            Seen(
                tool=tool,
                arguments={"part": scene.word(turn)},
                result="ok",
                state=f"part {turn}",
                progress=1,
            ),
        )


def slow_start(scene: Scene) -> Iterator[Both]:
    """New pages and new results without a success: for ever, or until well after the window."""
    tool = scene.tool("explore")
    first = (scene.limits.window or 0) + scene.between(SLOW_EXTRA)
    bests = scene.new_bests()
    for turn in count(1):
        arguments, result = {"page": scene.word(turn)}, f"text {turn}"
        found = next(bests) if turn > first else int(turn == first)
        yield (
            Seen(tool=tool, arguments=arguments, result=result, state=f"page {turn}"),
            Seen(
                tool=tool, arguments=arguments, result=result, state=f"page {turn}", progress=found
            ),
        )
