"""Draws mutants of the source by a public seed: Cosmic Ray says where it can change a program, and changes it."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one line.

    Args:
        module: the file, from src/dpdistill.
        line: its number, from 1.
        text: the line without its indentation.
        operator: what Cosmic Ray does to it.
        occurrence: which one, from 0, of this operator on lines of this text in the module.
        nth: which one, from 0, of this operator in the module.
    """

    module: str
    line: int
    text: str
    operator: str
    occurrence: int
    nth: int

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What names the mutant, whatever changes on other lines."""
        return self.module, self.operator, self.occurrence, self.text


def rank(*words: object) -> str:
    """Returns a number that is random, and the same for the same words: what has the lowest is drawn first."""
    return hashlib.sha256(repr(words).encode()).hexdigest()


def family(operator: str) -> str:
    """Returns the kind of an operator: Cosmic Ray has one operator for each pair of + and -, or of < and <=."""
    return operator.partition("_")[0]


@cache
def operators(left_out: Sequence[str]) -> dict[str, type]:
    """Returns Cosmic Ray's operators by name, without those that match a pattern."""
    import parso  # before Cosmic Ray, which imports a part of parso that cannot be imported first
    from cosmic_ray import plugins

    assert parso
    names = [name.removeprefix("core/") for name in plugins.operator_names()]
    kept = [name for name in names if not any(re.fullmatch(pattern, name) for pattern in left_out)]
    found = {name: plugins.get_operator(f"core/{name}") for name in kept}
    if "ExceptionReplacer" in found:
        found["ExceptionReplacer"] = _of_dotted_names(found["ExceptionReplacer"])
    return found


def _of_dotted_names(replacer: type) -> type:
    """Returns the operator that replaces an exception, for (sqlite3.Error, OSError) too, where Cosmic Ray's fails."""
    from parso.python.tree import Name

    class ExceptionReplacer(replacer):
        def mutate(self, node, index):
            named = self._name_nodes(node)[index]
            if hasattr(named, "value"):
                return super().mutate(node, index)
            named.children[:] = [Name("CosmicRayTestingException", named.start_pos, named.get_first_leaf().prefix)]
            return node

    return ExceptionReplacer


def places_that_do_not_run(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns (start, end), each (line, column), of annotations, blocks for types alone, `__all__` and docstrings."""
    tree, lines = ast.parse(source), source.splitlines()

    def place(line: int | None, column: int | None) -> tuple[int, int]:
        assert line is not None
        assert column is not None
        return line, len(lines[line - 1].encode()[:column].decode())  # ast counts bytes

    def parts(node: ast.AST) -> Iterator[ast.expr | ast.stmt | None]:
        match node:
            case ast.AnnAssign() | ast.arg():
                yield node.annotation
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.returns
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                yield node
            case ast.Assign(targets=[ast.Name("__all__")]) | ast.Expr(ast.Constant(str())):
                yield node

    found = [part for node in ast.walk(tree) for part in parts(node) if part is not None]
    return [(place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)) for node in found]


def mutants(module: str, source: str, left_out: Sequence[str]) -> list[Mutant]:
    """Returns every mutant of a module that could change what it computes."""
    kinds = operators(tuple(left_out))
    from cosmic_ray.ast import ast_nodes, get_ast

    idle, lines = places_that_do_not_run(source), source.splitlines()
    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for name, operator in kinds.items():
        made, same = operator(), defaultdict(int)
        positions = [position for node in nodes for position in made.mutation_positions(node)]
        for nth, (start, _) in enumerate(positions):
            if any(first <= start < last for first, last in idle):
                continue
            text = lines[start[0] - 1].strip()
            mutant = Mutant(
                module=module, line=start[0], text=text, operator=name, occurrence=same[text], nth=nth
            )  # fmt: skip
            same[text] += 1
            found.append(mutant)
    return found


def ordered(found: Sequence[Mutant], seed: str) -> list[Mutant]:
    """Returns mutants as they are drawn: at random one a line, then another place of each line, at last variants.

    A place is a line and a kind of operator, so that no line counts more because + has many replacements.
    """
    places = defaultdict(list)
    for mutant in found:
        places[mutant.module, mutant.line, family(mutant.operator)].append(mutant)
    of_line = defaultdict(list)
    for place, variants in places.items():
        variants.sort(key=lambda each: rank(seed, each.key))
        first = min(variants, key=lambda each: each.nth)
        of_line[place[:2]].append((rank(seed, first.module, first.text, first.occurrence, place[2]), variants))
    order = [
        (variant, nth, chance, mutant.key, mutant)
        for at_line in of_line.values()
        for nth, (chance, variants) in enumerate(sorted(at_line, key=lambda each: each[0]))
        for variant, mutant in enumerate(variants)
    ]
    return [mutant for *_, mutant in sorted(order, key=lambda each: each[:4])]


def sample(source: Path, room: str, drawn: int, seed: str, left_out: Sequence[str]) -> list[Mutant]:
    """Returns the mutants drawn of a room: each first part of them is a sample, too."""
    modules = sorted((source / room).rglob("*.py"))
    found = [
        mutant
        for path in modules
        for mutant in mutants(path.relative_to(source).as_posix(), path.read_text(), left_out)
    ]
    return ordered(found, seed)[:drawn]


def mutated(source: str, mutant: Mutant, left_out: Sequence[str]) -> str | None:
    """Returns the mutant's source; None if it is no Python, or the same program."""
    operator = operators(tuple(left_out))[mutant.operator]()
    from cosmic_ray.mutating import mutate_code

    changed = mutate_code(source, operator, mutant.nth)
    try:
        same = changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return None if same else changed
