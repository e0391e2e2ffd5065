"""Generated mutants of function bodies: one small change of the syntax tree each.

Theory of operation: a module's source is parsed, every node inside a function (or a lambda of a
table) is offered to the operators below, and each gives the nodes that may stand in its place. A
mutation is named by the function, the source line, and the change in words, so that the name stays
while other lines are edited and vanishes when its own line is. To make the mutant the source is
parsed again, the node replaced, and the whole tree written out.

Annotations, decorators, docstrings and texts for people are left alone: no answer depends on them.

Operators: a comparison weakened and negated; `and` for `or`; a condition negated; `not` dropped; an
integer one more and one less; a truth value turned; plus for minus; `min` for `max`; `break` for
`continue`; a statement dropped; `None` returned; a text that is compared changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import copy
from hashlib import sha256

import msgspec

from loopcore.mutation.values import DataError

_SHOWN_MAX = 90
_NAME_DIGITS = 8

# What each comparison becomes.
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_EXTREMES = {"min": "max", "max": "min"}
_DROPPED = (
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Raise,
    ast.Return,
    ast.Delete,
)


class BodyMutation(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one function.

    Fields:
        function: its name with the classes around it; line: the text of the source line, without
            the white space around it.
        change: before and after, in words, with a number where a function has the same line with
            the same change more than once.
    """

    function: str
    line: str
    change: str

    def name(self, module: str) -> str:
        """Return the id of the mutant that it makes of a module."""
        text = "\n".join((module, self.function, self.line, self.change))
        digits = sha256(text.encode()).hexdigest()[:_NAME_DIGITS]
        return f"body-{module}-{self.function.rpartition('.')[2]}-{digits}"


def mutations(source: str) -> list[BodyMutation]:
    """Return every mutation of a module's source, in the order of the source."""
    return [named for named, _, _ in _named_sites(ast.parse(source), source.splitlines())]


def mutated(source: str, mutation: BodyMutation) -> str:
    """Return the changed source; raise DataError when the mutation is none of this source."""
    tree = ast.parse(source)
    for named, node, replacement in _named_sites(tree, source.splitlines()):
        if named == mutation:
            changed = _Replacing(node, replacement).visit(tree)
            return ast.unparse(ast.fix_missing_locations(changed)) + "\n"
    raise DataError(f"no line {mutation.line!r} of {mutation.function} has {mutation.change!r}.")


class _Replacing(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, node: ast.AST, replacement: ast.AST) -> None:
        self._node = node
        self._replacement = replacement

    def visit(self, node: ast.AST) -> ast.AST:
        """Return what stands in the place of a node."""
        if node is self._node:
            return self._replacement
        visited: ast.AST = super().generic_visit(node)
        return visited


def _named_sites(
    tree: ast.Module, lines: list[str]
) -> Iterator[tuple[BodyMutation, ast.AST, ast.AST]]:
    """Yield each mutation with the node and what stands in its place."""
    met: Counter[tuple[str, str, str]] = Counter()
    for function, node in _inside_functions(tree, "", inside=False):
        for change, replacement in _changes(node):
            line = lines[getattr(node, "lineno", 1) - 1].strip()
            place = (function, line, change)
            met[place] += 1
            words = change if met[place] == 1 else f"{change} #{met[place]}"
            named = BodyMutation(function=function, line=line, change=words)
            yield named, node, replacement


def _inside_functions(node: ast.AST, name: str, *, inside: bool) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node of every function body with the function's name, in order."""
    if isinstance(node, ast.JoinedStr):
        return  # Texts for people; where their parts stand is not known either.
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        own = f"{name}.{node.name}" if name else node.name
        is_inside = inside or isinstance(node, ast.FunctionDef)
        for statement in node.body:
            yield from _inside_functions(statement, own, inside=is_inside)
        return
    if isinstance(node, ast.Lambda):
        yield from _inside_functions(node.body, f"{name}.lambda" if name else "lambda", inside=True)
        return
    if inside:
        yield name, node
    annotation: object = getattr(node, "annotation", None)
    for child in ast.iter_child_nodes(node):
        if child is not annotation:
            yield from _inside_functions(child, name, inside=inside)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield for each change of a node its words and the node that takes its place."""
    if isinstance(node, _DROPPED) and not _is_constant(node):
        yield f"without {_shown(node)}", ast.Pass()
    # To whoever asks whether something holds, None is false; True is tried by another operator.
    is_false = isinstance(node, ast.Return) and _is_value(node.value, False)
    if isinstance(node, ast.Return) and not _is_constant(node) and not is_false:
        nothing = ast.Return(value=ast.Constant(value=None))
        yield _words(node, nothing), nothing
    test: ast.expr | None = None
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not _is_negated_below(node.test):
        test = node.test
    if test is not None:
        negated = copy(node)
        replacement = ast.UnaryOp(op=ast.Not(), operand=test)
        setattr(negated, "test", replacement)  # noqa: B010 three types of nodes have this field
        yield _words(test, replacement), negated
    for other in _replacements(node):
        yield _words(node, other), other


def _is_constant(node: ast.AST) -> bool:
    """Return whether a statement is a docstring or returns nothing that could differ."""
    if isinstance(node, ast.Expr | ast.Return):
        return node.value is None or (
            isinstance(node.value, ast.Constant)
            and (isinstance(node, ast.Expr) or node.value.value is None)
        )
    return isinstance(node, ast.AnnAssign) and node.value is None


def _is_value(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_negated_below(test: ast.expr) -> bool:
    """Return whether a condition is negated already where its own node is changed."""
    simple = isinstance(test, ast.Compare) and len(test.ops) == 1
    return simple or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    if isinstance(node, ast.Compare):
        yield from _other_comparisons(node)
    elif isinstance(node, ast.BoolOp):
        turned = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield ast.BoolOp(op=turned, values=node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield ast.BinOp(left=node.left, op=_ARITHMETIC[type(node.op)](), right=node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        operator = _ARITHMETIC[type(node.op)]()
        yield ast.AugAssign(target=node.target, op=operator, value=node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in _EXTREMES:
            name = ast.Name(id=_EXTREMES[node.func.id], ctx=ast.Load())
            yield ast.Call(func=name, args=node.args, keywords=node.keywords)
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node.value)


def _other_comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for place, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            operators = [*node.ops]
            operators[place] = other()
            yield ast.Compare(left=node.left, ops=operators, comparators=node.comparators)
    for place, operand in enumerate(node.comparators):
        if isinstance(operand, ast.Constant) and isinstance(operand.value, str):
            operands: list[ast.expr] = [*node.comparators]
            operands[place] = ast.Constant(value=operand.value + "?")
            yield ast.Compare(left=node.left, ops=node.ops, comparators=operands)


def _other_constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(value=not value)
    elif isinstance(value, int):
        yield ast.Constant(value=value + 1)
        yield ast.Constant(value=value - 1)


def _words(before: ast.AST, after: ast.AST) -> str:
    return f"{_shown(before)} → {_shown(after)}"


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
