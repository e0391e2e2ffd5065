"""The child process that hosts a store, made by `package.module:factory`.

Theory of operation: `loopcore.testing.host` guards the pipes; here is what a store's factory gets.

`factory(location, now_ms)` opens a store (`loopcore.store.contract.Store`). `location` is the path
of an empty folder of its own, and `now_ms()` the clock that leases are held against, in
milliseconds. Called again with the same location, it opens the same store, unless the store says
`durable = False`. Optional: `destroy()`, which removes what is not in that folder.

Source: spec runtime, section 1; spec verification, section 1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import cast

from loopcore import __version__
from loopcore.testing.host import Refused, find_object, main
from loopcore.testing.store_serving import Make, ServedStore

_METHODS = ("head", "append", "read", "runs", "renew", "now_ms", "close")


class HostedStore:
    """A store behind the operations of the private protocol."""

    def __init__(self, name: str) -> None:
        name, _, location = name.partition("@")
        self._name = name
        factory = find_object(name)
        if not callable(factory):
            raise Refused(f"{name} is no factory: it cannot be called")
        make = cast("Make", factory)
        self._served = ServedStore(make, location)
        lacking = [method for method in _METHODS if not hasattr(self._served.sample(), method)]
        if lacking:
            raise Refused(f"what {name}() returns has no method {lacking[0]}")

    def serve(self, request: Mapping[str, object]) -> object:
        """Return what the store says to one request; raises whatever it raises."""
        if request.get("op") == "describe":
            module = sys.modules[self._name.partition(":")[0]]
            version: object = getattr(module, "__version__", __version__)
            return {"version": str(version), "durable": self._served.durable}
        if request.get("op") == "destroy":
            self._served.close(destroy=True)
            return {"done": True}
        return self._served.serve(request)


if __name__ == "__main__":
    main(sys.argv[1], HostedStore)
