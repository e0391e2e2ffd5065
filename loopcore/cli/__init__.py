"""The command line: one file a command, each loaded only when it is asked for.

Theory of operation: `COMMANDS` names every command with its module, so that `--help` and
`--version` import nothing but the standard library's argument parser. A command module has `HELP`
(one line), `configure(parser)` and `run(arguments) -> exit status`.

Exit statuses: 0 done; 1 the thing under test was found wanting; 2 bad input or usage; 3 unknown,
never a pass; 130 interrupted, with the results so far written.

Source: spec evaluator, section 6; spec verification, section 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, Protocol, cast

from loopcore import __version__
from loopcore.cli.interrupts import lasting_interrupts
from loopcore.cli.streams import noted_output, take_closed
from loopcore.errors import EnvironmentFault, InputError, LoopcoreError, UsageError

EXIT_OK = 0
EXIT_WANTING = 1
EXIT_INPUT = 2
EXIT_UNKNOWN = 3
EXIT_INTERRUPTED = 130

# A longer complaint quotes what nobody will read: a name, a key, or a value.
_SENTENCE_CHARACTERS_MAX = 2_000

# Each command's module and its line in `loopcore --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "assess": ("assess", "verify, mutate, compare on worlds and logs, and write one HTML report"),
    "evaluate": ("evaluate", "print the receipt of a trace, a stream or a batch"),
    "replay": ("replay", "check a receipt against its trace"),
    "serve": ("serve", "answer the target or the controller protocol on standard input"),
    "lab": ("lab", "run the eleven reference cases"),
    "verify": ("verify", "hold an evaluator, a controller or a store to every invariant"),
    "mutate": ("mutate", "show that the invariants catch planted faults"),
    "simulate": ("simulate", "run the live runner under drawn faults; find what breaks a rule"),
    "import": ("import_", "read recorded agent runs into observations"),
    "audit": ("audit", "compare controllers on recorded agent runs"),
    "bench": ("bench", "compare levels of control on worlds with known truth"),
    "report": ("report", "render result files as HTML, Markdown and JSON"),
}


class Command(Protocol):
    """What every command module offers."""

    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work; return the exit status."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status. Never shows a traceback for what a user typed."""
    take_closed()
    words = list(sys.argv[1:] if arguments is None else arguments)
    with noted_output() as output:
        try:
            with lasting_interrupts():
                status = _answered(words)
        except KeyboardInterrupt:
            complain("interrupted")
            status = EXIT_INTERRUPTED
    failure = None if output is None else output.failure
    if failure is None or isinstance(failure, BrokenPipeError):
        # A reader who has gone away knows that it stopped; what it read were complete lines.
        return status
    complain(f"standard output: {failure.strerror or failure}")
    return EXIT_INPUT


def _answered(words: list[str]) -> int:
    """Do what the words ask; return the exit status."""
    if not words or words[0] not in COMMANDS:
        return _overview(words)
    name = words[0]
    command = cast("Command", import_module(f"loopcore.cli.{COMMANDS[name][0]}"))
    parser = _Parser(prog=f"loopcore {name}", description=command.HELP, allow_abbrev=False)
    command.configure(parser)
    try:
        parser.refuse_lone_dashes(words[1:])
        return _guarded(command, parser.parse_args(words[1:]))
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else EXIT_INPUT


class _Parser(argparse.ArgumentParser):
    """An argument parser that complains in one sentence, like everything else here."""

    def error(self, message: str) -> NoReturn:
        complain(f"{message} (see `{self.prog} --help`)")
        raise SystemExit(EXIT_INPUT)

    def refuse_lone_dashes(self, words: Sequence[str]) -> None:
        """Complain about `--option=--`, which Python 3.11 takes for an option without a value."""
        for word in words:
            if word == "--":
                return
            if word.startswith("--") and word.endswith("=--"):
                self.error(f"argument {word[:-3]}: expected a value, not --")


def _guarded(command: Command, options: argparse.Namespace) -> int:
    try:
        return command.run(options)
    except (InputError, UsageError) as error:
        complain(str(error))
        return EXIT_INPUT
    except EnvironmentFault as error:
        complain(str(error))
        return EXIT_INPUT
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}")
        return EXIT_INPUT
    except LoopcoreError as error:
        complain(str(error))
        return EXIT_UNKNOWN


def complain(sentence: str) -> None:
    """Write one sentence for a person on standard error, on one line whatever it quotes."""
    if len(sentence) > _SENTENCE_CHARACTERS_MAX:
        sentence = f"{sentence[:_SENTENCE_CHARACTERS_MAX]}..."
    print(f"loopcore: {one_line(sentence)}", file=sys.stderr)


def one_line(text: str) -> str:
    """Return a text in which nothing can move the cursor or fail to be encoded."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
    return shown.encode("ascii", "backslashreplace").decode()


def _overview(words: list[str]) -> int:
    """Answer a call without a command: help, version, or a complaint."""
    listing = "\n".join(f"  {name:<10} {line}" for name, (_, line) in COMMANDS.items())
    parser = _Parser(
        prog="loopcore",
        usage="loopcore COMMAND [OPTIONS]",
        description="The referee for agent loops: evaluate, verify, compare.",
        epilog=f"commands:\n{listing}\n\n`loopcore COMMAND --help` explains one command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"loopcore {__version__}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    try:
        options = parser.parse_args(words[:1])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else EXIT_INPUT
    if options.command is None:
        parser.print_help()
        return EXIT_INPUT
    names = ", ".join(COMMANDS)
    complain(f"there is no command {options.command!r}; the commands are {names}")
    return EXIT_INPUT
