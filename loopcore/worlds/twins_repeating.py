"""Pairs in which one call, or one short round of calls, comes again and again.

Theory of operation: in the pathology nothing comes of the repetition; in the twin each repetition
moves something that only a state, a result or the measure can show. Each maker yields both, turn
for turn, with the same call in both wherever the pair's kind allows it.

Source: spec control, section 4; incidents 1.1 to 1.4, 2.1, 2.5, 2.6 and 2.8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from loopcore.control.limits import ToolPolicy
from loopcore.worlds.twins_model import Both, Scene, Seen

# Where only every second turn can be a new best.
GAP_MAX_HALF = 2
_ROUND_MIN = 3
_LONG_EXTRA = (1, 3)
_SHUFFLED_KEYS = 4


def declared_poll(scene: Scene) -> Iterator[Both]:
    """A tool marked `wait`: its answer stands still, or counts up."""
    tool = scene.tool("poll", ToolPolicy(wait=True))
    arguments = {"job": scene.word(0)}
    knows_state, bests = scene.flag(), scene.new_bests()
    for turn, best in zip(count(1), bests, strict=False):
        frozen, moving = ("idle", f"pass {turn}") if knows_state else (None, None)
        yield (
            Seen(tool=tool, arguments=arguments, result={"done": 0}, state=frozen),
            Seen(
                tool=tool, arguments=arguments, result={"done": turn}, state=moving, progress=best
            ),
        )


def undeclared_poll(scene: Scene) -> Iterator[Both]:
    """The same without a policy, so that only what comes back tells the two apart."""
    tool, arguments = scene.tool("status"), {"build": scene.word(0)}
    for turn, best in zip(count(1), scene.new_bests(), strict=False):
        yield (
            Seen(tool=tool, arguments=arguments, result="running"),
            Seen(tool=tool, arguments=arguments, result=f"running, {turn} done", progress=best),
        )


def clock(scene: Scene) -> Iterator[Both]:
    """One call whose result is new each time: the time of day, or a log that grows."""
    tool, knows_state, first = scene.tool("read"), scene.flag(), scene.between((0, 900))
    for turn, best in zip(count(1), scene.new_bests(), strict=False):
        frozen, moving = ("still", f"log {turn}") if knows_state else (None, None)
        minute = first + turn
        yield (
            Seen(
                tool=tool, arguments={}, result=f"it is {minute // 60}:{minute % 60}", state=frozen
            ),
            Seen(
                tool=tool,
                arguments={},
                result="\n".join(f"line {n}" for n in range(turn)),
                state=moving,
                progress=best,
            ),
        )


def unmeasured_clock(scene: Scene) -> Iterator[Both]:
    """The same where neither state nor progress can be known; only the results tell."""
    for frozen, moving in clock(scene):
        yield (
            Seen(tool=frozen.tool, arguments={}, result=frozen.result, progress=None),
            Seen(tool=moving.tool, arguments={}, result=moving.result, progress=None),
        )


def read_and_sleep(scene: Scene) -> Iterator[Both]:
    """Reading and sleeping in turn; what is read is the same, or has grown."""
    read, sleep = scene.tool("read"), "sleep"
    bests, seconds = scene.new_bests(GAP_MAX_HALF), scene.between((1, 30))
    for turn in count(1):
        rest = Seen(tool=sleep, arguments={"seconds": seconds}, result="slept")
        yield (
            Seen(tool=read, arguments={}, result="compiling"),
            Seen(tool=read, arguments={}, result=f"compiling {turn}", progress=next(bests)),
        )
        yield rest, rest


def pressed_control(scene: Scene) -> Iterator[Both]:
    """One button pressed again; the page stays, or is another one. Nothing measures progress."""
    tool, arguments = scene.tool("click"), {"name": scene.word(0)}
    for turn in count(1):
        yield (
            Seen(tool=tool, arguments=arguments, result="clicked", state="page", progress=None),
            Seen(
                tool=tool,
                arguments=arguments,
                result="clicked",
                state=f"page {turn}",
                progress=None,
            ),
        )


def pagination(scene: Scene) -> Iterator[Both]:
    """`next page` with a cursor that the server holds; it stands still, or moves."""
    tool, size = scene.tool("next"), scene.between((2, 9))
    for turn, best in zip(count(1), scene.new_bests(), strict=False):
        first = [f"{scene.word(1)} {row}" for row in range(size)]
        rows = [f"{scene.word(1)} {row}" for row in range(turn * size, (turn + 1) * size)]
        yield (
            Seen(tool=tool, arguments={}, result=first, state="cursor"),
            Seen(tool=tool, arguments={}, result=rows, state=f"cursor {turn}", progress=best),
        )


def heartbeat(scene: Scene) -> Iterator[Both]:
    """A tool marked repeatable with one answer; behind it nothing happens, or work goes on."""
    tool = scene.tool("beat", ToolPolicy(repeatable=True))
    for turn, best in zip(count(1), scene.new_bests(), strict=False):
        yield (
            Seen(tool=tool, arguments={}, result="alive", state="at rest"),
            Seen(tool=tool, arguments={}, result="alive", state=f"unit {turn}", progress=best),
        )


def oscillation(scene: Scene) -> Iterator[Both]:
    """Two edits in turn: each undoes the other, or each goes on from where the last one ended."""
    tool, bests = scene.tool("edit"), scene.new_bests()
    for turn in count():
        arguments = {"change": scene.word(turn % 2)}
        yield (
            Seen(tool=tool, arguments=arguments, result="ok", state=f"version {turn % 2}"),
            Seen(
                tool=tool,
                arguments=arguments,
                result="ok",
                state=f"version {turn}",
                progress=next(bests),
            ),
        )


def round_of_steps(scene: Scene) -> Iterator[Both]:
    """A round of three or more different calls; the state comes back, or goes on."""
    size = scene.between((_ROUND_MIN, scene.limits.cycle_max or _ROUND_MIN))
    tools = [scene.tool(f"step{phase}") for phase in range(size)]
    for turn, best in zip(count(), scene.new_bests(), strict=False):
        phase = turn % size
        yield (
            Seen(tool=tools[phase], arguments={"phase": phase}, result="ok", state=f"at {phase}"),
            Seen(
                tool=tools[phase],
                arguments={"phase": phase},
                result="ok",
                state=f"at {turn}",
                progress=best,
            ),
        )


def long_round(scene: Scene) -> Iterator[Both]:
    """A round longer than the longest cycle that is looked for, without a measure of progress."""
    size = (scene.limits.cycle_max or _ROUND_MIN) + scene.between(_LONG_EXTRA)
    tool = scene.tool("visit")
    for turn in count():
        arguments = {"place": scene.word(turn % size)}
        yield (
            Seen(tool=tool, arguments=arguments, result=f"text {turn % size}", progress=None),
            Seen(tool=tool, arguments=arguments, result=f"text {turn}", progress=None),
        )


def shuffled_keys(scene: Scene) -> Iterator[Both]:
    """Arguments as text: the same object written otherwise, or another object of the same text."""
    tool, bests = scene.tool("run"), scene.new_bests()
    keys = [scene.word(index) for index in range(_SHUFFLED_KEYS)]
    for turn in count():
        order = scene.random.sample(keys, len(keys))
        spaces = None if scene.flag() else scene.between((1, 3))
        same = json.dumps({key: keys.index(key) for key in order}, indent=spaces)
        other = json.dumps({key: keys.index(key) + turn for key in order}, indent=spaces)
        yield (
            Seen(tool=tool, arguments=same, result="done", state="same"),
            Seen(tool=tool, arguments=other, result="done", state=f"{turn}", progress=next(bests)),
        )


def volatile_reference(scene: Scene) -> Iterator[Both]:
    """A click whose element number changes with each snapshot: one button, or many."""
    tool, bests = scene.tool("press", ToolPolicy(volatile=("ref",))), scene.new_bests()
    for turn in count():
        reference = f"E{scene.between((1, 10_000))}"
        one = {"ref": reference, "role": "button", "name": scene.word(0)}
        many = {"ref": reference, "role": "button", "name": scene.word(turn)}
        yield (
            Seen(tool=tool, arguments=one, result="pressed", state="page"),
            Seen(
                tool=tool,
                arguments=many,
                result="pressed",
                state=f"page {turn}",
                progress=next(bests),
            ),
        )
