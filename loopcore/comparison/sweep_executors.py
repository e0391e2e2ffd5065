"""Where chunks are computed: in this process, in worker processes, or on a cluster.

Theory of operation: a sweep asks for nothing but `concurrent.futures.Executor`. Worker processes
use one thread each for linear algebra, as there is a process a core. A cluster that already exists
is named by the address of its scheduler; dask's executor runs a lost worker's chunks again on the
others.

Source: spec control, section 6; distributed, `Client.get_executor`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import ParamSpec, Protocol, TypeVar, cast

from loopcore.errors import EnvironmentFault, UsageError
from loopcore.worker_pool import worker_pool

P = ParamSpec("P")
T = TypeVar("T")

# How long a cluster may take to answer, and how often it runs a chunk whose worker was lost.
CLUSTER_SECONDS_MAX = 10
CLUSTER_RETRIES = 5
# Variables that the common linear algebra libraries read when they are loaded.
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


class SerialExecutor(Executor):
    """Computes each call when it is submitted, in the caller's process."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return a future that is already done; what the call raises is the future's."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  whatever it is, the future carries it
            future.set_exception(error)
        return future


@contextmanager
def executor(jobs: int, cluster: str | None = None) -> Generator[Executor]:
    """Yield what computes the chunks; what it started is ended when the block is left.

    Arguments: jobs, worker processes (1: none, this process works); cluster, a scheduler's address.
    Errors: EnvironmentFault when the extra is missing or the cluster does not answer, UsageError
        when the address is none.
    """
    if cluster is not None:
        with _cluster(cluster) as found:
            yield found
    elif jobs == 1:
        yield SerialExecutor()
    else:
        with _processes(jobs) as found:
            yield found


@contextmanager
def _processes(jobs: int) -> Generator[Executor]:
    with ExitStack() as stack:
        # Workers read the number of threads when they load the library, which may be at their
        # first call; what they inherit at their start stays theirs.
        with _one_thread():
            pool = stack.enter_context(worker_pool(jobs))
        yield pool


@contextmanager
def _one_thread() -> Generator[None]:
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Client(Protocol):
    """What is used of dask's client, which has no types of its own."""

    def get_executor(self, *, retries: int) -> Executor: ...

    def close(self) -> None: ...


class _Connect(Protocol):
    """How a client is made."""

    def __call__(self, address: str, *, timeout: int, set_as_default: bool) -> _Client: ...


@contextmanager
def _cluster(address: str) -> Generator[Executor]:
    if importlib.util.find_spec("distributed") is None:
        raise EnvironmentFault("--cluster needs the extra: pip install 'loopcore[cluster]'")
    connect = cast("_Connect", import_module("distributed").Client)
    try:
        client = connect(address, timeout=CLUSTER_SECONDS_MAX, set_as_default=False)
    except (OSError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else "no answer"
        raise EnvironmentFault(f"the cluster {address!r} does not answer: {reason}") from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"--cluster takes a scheduler's address, not {address!r}: {error}"
        ) from None
    try:
        yield client.get_executor(retries=CLUSTER_RETRIES)
    finally:
        client.close()
