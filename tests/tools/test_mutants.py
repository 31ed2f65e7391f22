"""Which faults are put into a module, and that a test that notices them kills them."""

import ast

import pytest
from mutants_sites import drawn

SOURCE = '''
"""A module."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a import b

LIMIT: int = 3


class Settings:
    """Settings."""

    weight: float = 4.0


def first(x, k=2):
    """Docstring 5."""
    if not x or k > 1:
        raise ValueError(f"{k + 1} is more than {k > 1}")
    return -x.sum(axis=1) + k
'''


def test_every_kind_of_fault_and_nothing_but_code():
    found = {(mutant.kind, mutant.was, mutant.becomes) for mutant in drawn("m.py", SOURCE, 100, 0)}
    result = "return -x.sum(axis=1) + k"
    assert found == {
        ("constant", "LIMIT: int = 3", "LIMIT: int = 4"),
        ("constant", "def first(x, k=2):", "def first(x, k=3):"),
        ("not", "if not x or k > 1:", "if x or k > 1:"),
        ("and", "if not x or k > 1:", "if not x and k > 1:"),
        ("comparison", "if not x or k > 1:", "if not x or k >= 1:"),
        ("constant", "if not x or k > 1:", "if not x or k > 2:"),
        ("arithmetic", result, "return -x.sum(axis=1) - k"),
        ("sign", result, "return x.sum(axis=1) + k"),
        ("other", result, "return -x.mean(axis=1) + k"),
        ("axis", result, "return -x.sum(axis=0) + k"),
    }


def test_a_mutant_is_the_module_with_one_statement_changed():
    plain = f"{ast.unparse(ast.parse(SOURCE))}\n".split("\n")
    for mutant in drawn("m.py", SOURCE, 100, 0):
        changed = [(a, b) for a, b in zip(plain, mutant.spoil().split("\n"), strict=True) if a != b]
        assert changed == [changed[0]]
        assert mutant.was in changed[0][0]
        assert mutant.becomes in changed[0][1]


def test_the_seed_and_the_lines_decide_and_not_where_they_stand():
    names = [mutant.id for mutant in drawn("m.py", SOURCE, 4, 0)]
    assert len({*names}) == 4
    assert names == [mutant.id for mutant in drawn("m.py", f"\n\n{SOURCE}", 4, 0)]
    assert {*names} != {mutant.id for mutant in drawn("m.py", SOURCE, 4, 1)}


@pytest.mark.parametrize("each", [1, 5])
def test_kinds_take_turns(each):
    kinds = [mutant.kind for mutant in drawn("m.py", SOURCE, each, 0)]
    assert len(kinds) == len({*kinds}) == each
