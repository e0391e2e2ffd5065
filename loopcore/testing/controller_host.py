"""The child process that hosts a Python controller, made by `package.module:factory`.

Theory of operation: `loopcore.testing.host` guards the pipes; here are the operations of a
controller. The factory is called once, without arguments, and what it returns is told `start` for
every run.

`start(limits)` gets a dict with every field of the limits, and `observe(observation)` a dict as on
the wire; it returns a dict with `decision`, `reason` and `strategy`, or an object with these
attributes. Where the argument of `start` is annotated with `loopcore.control.limits.Limits`, both
get the values of `loopcore.control` instead. Optional: `propose(call)`; `describe()`, a dict with
`name`, `version`, `decides`, `effect` and `needs`, each optional. Without `needs` nothing is
declared, and little can be judged.

Source: spec control, section 1; spec controllers, section 7.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import msgspec

from loopcore.control.limits import Limits, decode_limits
from loopcore.control.wire import WireError, decode_observation
from loopcore.errors import UsageError
from loopcore.testing.host import Refused, find_object, main

_MEMBERS = ("decision", "reason", "strategy")


class _Controller(Protocol):
    def start(self, limits: object) -> object:
        """Begin a new run."""
        ...

    def observe(self, observation: object) -> object:
        """Return the decision."""
        ...


class HostedController:
    """A controller behind the operations of the private protocol."""

    def __init__(self, name: str) -> None:
        self._name = name
        factory = find_object(name)
        if not callable(factory):
            raise Refused(f"{name} is no factory: it cannot be called")
        made = cast("Callable[[], object]", factory)()
        for method in ("start", "observe"):
            if not callable(getattr(made, method, None)):
                raise Refused(f"what {name}() returns has no method {method}")
        self._controller = cast("_Controller", made)
        self._typed = _takes_limits(self._controller.start)

    def serve(self, request: Mapping[str, object]) -> object:
        """Return what the controller says to one request; raises whatever it raises."""
        operation = request["op"]
        if operation == "describe":
            return self._describe()
        if operation == "start":
            try:
                limits = decode_limits(request["limits"])
            except UsageError as error:
                return {"ok": False, "error": {"code": "bad_request", "message": str(error)}}
            self._controller.start(limits if self._typed else _plain(limits))
            return {"ok": True}
        if operation == "propose":
            propose: object = getattr(self._controller, "propose", None)
            return _decision(cast("Callable[[object], object]", propose)(request["call"]))
        observation = request["observation"]
        if self._typed:
            try:
                observation = decode_observation(observation)
            except WireError as error:
                return {"ok": False, "error": {"code": error.code, "message": error.message}}
        return _decision(self._controller.observe(observation))

    def _describe(self) -> object:
        describe: object = getattr(self._controller, "describe", None)
        nothing: object = {}
        said = cast("Callable[[], object]", describe)() if callable(describe) else nothing
        if not isinstance(said, Mapping):
            raise Refused(f"describe() of {self._name} returns no dict")
        module = sys.modules[self._name.partition(":")[0]]
        version: object = getattr(module, "__version__", "unknown")
        return {"name": self._name, "version": version, **cast("dict[str, object]", said)}


def _takes_limits(start: Callable[[object], object]) -> bool:
    """Return whether the first argument is annotated with our own limits."""
    try:
        parameters = list(inspect.signature(start).parameters.values())
    except (TypeError, ValueError):
        return False
    return bool(parameters) and parameters[0].annotation in (Limits, "Limits")


def _plain(limits: Limits) -> dict[str, object]:
    """Return every field of the limits as JSON has it, the derived horizon too."""
    fields = cast("dict[str, object]", msgspec.to_builtins(limits))
    return {**fields, "horizon": limits.horizon_turns()}


def _decision(said: object) -> object:
    """Return a decision as the wire has it; what is none comes back as it is."""
    if isinstance(said, Mapping):
        return {"reason": None, "strategy": None, **cast("dict[str, object]", said)}
    if hasattr(said, "decision"):
        return {name: getattr(said, name, None) for name in _MEMBERS}
    return said


if __name__ == "__main__":
    main(sys.argv[1], HostedController)
