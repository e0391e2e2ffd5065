"""What a command needs beyond the core dependencies, said in one sentence before it begins.

Source: spec evaluator, section 6: a missing extra is the environment's fault, exit status 2.
"""

from importlib.util import find_spec

from loopcore.errors import EnvironmentFault

# The packages of each extra that code of that extra imports before it does anything.
_PACKAGES = {
    "verify": ("hypothesis",),
    "bench": ("numpy",),
    "report": ("jinja2", "markupsafe", "matplotlib"),
}


def check_extras(what: str, *extras: str) -> None:
    """Raise EnvironmentFault if a package of these extras is not installed.

    Arguments: what needs them, as the user typed it.
    """
    lacking = [name for extra in extras for name in _PACKAGES[extra] if find_spec(name) is None]
    if lacking:
        wanted = ",".join(extras)
        raise EnvironmentFault(
            f"{what} needs {', '.join(lacking)}: pip install 'loopcore[{wanted}]'"
        )
