"""Where `mutants.py` can put a fault into a module, and what it is then."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COUNTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_OTHER = {"min": "max", "minimum": "maximum", "any": "all", "argmin": "argmax", "sum": "mean", "left": "right"}
_OTHER |= {value: key for key, value in _OTHER.items()}
_AXES = ("axis", "dim")


@dataclass(frozen=True)
class Mutant:
    """A module with one fault; its id hangs on the code around it, not on the line's number."""

    id: str
    module: str
    line: int
    kind: str
    was: str
    becomes: str
    spoil: Callable[[], str]  # gives the source of the whole module

    def place(self) -> dict:
        """What a row says of it."""
        return {name: getattr(self, name) for name in ("module", "line", "kind", "was", "becomes")}


def drawn(module: str, source: str, each: int, seed: int) -> list[Mutant]:
    """So many mutants of a module, its kinds in turn, in the order of their lines."""
    kinds = defaultdict(list)
    for mutant in _mutants(module, source):
        kinds[mutant.kind].append(mutant)
    for found in kinds.values():
        found.sort(key=lambda mutant: _hash(seed, mutant.id))
    turns = sorted(
        (turn, _hash(seed, module, kind), mutant) for kind, found in kinds.items() for turn, mutant in enumerate(found)
    )
    return sorted((mutant for *_, mutant in turns[:each]), key=lambda mutant: mutant.line)


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _mutants(module: str, source: str) -> Iterator[Mutant]:
    """All of a module."""
    tree, seen = ast.parse(source), Counter()
    for way, node in _nodes(tree, ()):
        for kind, changed in mutations(node):
            head = _way_of_statement(tree, way)
            statement = _at(tree, way[:head])
            was, becomes = _short(_told(statement), _told(_replaced(statement, way[head:], changed)))
            seen[kind, was, becomes] += 1
            name = _hash(module, kind, was, becomes, seen[kind, was, becomes])[:10]
            spoil = partial(_source, tree, way, changed)
            yield Mutant(name, module, node.lineno, kind, was, becomes, spoil)


def _source(tree: ast.AST, way: tuple, changed: ast.AST) -> str:
    return ast.unparse(_replaced(tree, way, changed)) + "\n"


def mutations(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in the place of a node, and of which kind that fault is."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        yield "comparison", _with(node, ops=[_COMPARED[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _COUNTED:
        yield "arithmetic", _with(node, op=_COUNTED[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield "and", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp):
        yield {ast.USub: "sign"}.get(type(node.op), "not"), node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "truth", _with(node, value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield "constant", _with(node, value=node.value + 1)
    elif isinstance(node, ast.keyword) and node.arg in _AXES and isinstance(node.value, ast.Constant):
        yield "axis", _with(node, value=_with(node.value, value=int(not node.value.value)))
    elif isinstance(node, ast.Attribute) and node.attr in _OTHER:
        yield "other", _with(node, attr=_OTHER[node.attr])
    elif isinstance(node, ast.Name) and node.id in _OTHER and node.id != "left":
        yield "other", _with(node, id={"sum": "len"}.get(node.id, _OTHER[node.id]))


def _with(node: ast.AST, **fields) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _nodes(node: ast.AST, path: tuple) -> Iterator[tuple[tuple, ast.AST]]:
    """Every node that may be changed, and the way to it from the module's."""
    for name, value in ast.iter_fields(node):
        for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_left_alone(node, name, child):
                continue
            way = (*path, (name, number))
            if hasattr(child, "lineno"):
                yield way, child
            yield from _nodes(child, way)


def _is_left_alone(node: ast.AST, name: str, child: ast.AST) -> bool:
    """Whether nothing there is code that a test of behaviour could look at."""
    if name in ("annotation", "returns", "decorator_list", "type_params") or isinstance(child, ast.JoinedStr):
        return True
    if isinstance(child, ast.Raise) or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
        return True
    if isinstance(node, ast.ClassDef) and isinstance(child, ast.AnnAssign):
        return True
    return isinstance(node, ast.keyword) and node.arg in _AXES  # has a kind of its own


def _at(tree: ast.AST, way: tuple) -> ast.AST:
    """The node at the end of the way."""
    for name, number in way:
        tree = getattr(tree, name) if number is None else getattr(tree, name)[number]
    return tree


def _replaced(tree: ast.AST, way: tuple, changed: ast.AST) -> ast.AST:
    """A tree with another node at the end of the way; the given one stays as it is."""
    if not way:
        return changed
    (name, number), *rest = way
    child = getattr(tree, name)
    if number is None:
        return _with(tree, **{name: _replaced(child, tuple(rest), changed)})
    return _with(
        tree, **{name: [*child[:number], _replaced(child[number], tuple(rest), changed), *child[number + 1 :]]}
    )


def _way_of_statement(tree: ast.AST, way: tuple) -> int:
    """How much of the way leads to the smallest statement on it."""
    return max(n for n in range(len(way) + 1) if isinstance(_at(tree, way[:n]), (ast.stmt, ast.Module)))


def _told(statement: ast.AST) -> str:
    """A statement's code; of one with a body only its head."""
    if hasattr(statement, "body"):
        return ast.unparse(_with(statement, body=[ast.Pass()], orelse=[])).removesuffix("pass").rstrip()
    return ast.unparse(statement)


def _short(was: str, becomes: str, most: int = 80) -> tuple[str, str]:
    """Of two texts the part around their first difference."""
    at = next((i for i, (a, b) in enumerate(zip(was, becomes)) if a != b), min(len(was), len(becomes)))
    first = max(0, at - most // 2)
    return was[first : first + most], becomes[first : first + most]
