"""The tables of docs/complaints.md are complete, and every test they name exists and carries the complaint's id."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
NUMBERS = {
    "A": [1, 2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 15, 17],
    "B": [1, 2, 4, 5],
    "C": [1, 3, 4],
    "D": [1, 2, 3, 4, 6, 7, 9],
    "E": [1, 2, 4],
    "F": [1, 2, 3, 5, 6],
    "G": list(range(1, 20)),
    "H": [1, 2, 3],
}
IDS = [f"{section}{number}" for section, numbers in NUMBERS.items() for number in numbers]
ROWS = re.findall(r"^\| ([A-Z]\d+) \| (.+?) \| (.+?) \|$", (TESTS.parent / "docs/complaints.md").read_text(), re.M)
NAMED = [(of, *test) for of, _, here in ROWS for test in re.findall(r"`([\w/]+\.py)::(\w+)(?:\[(.+?)\])?`", here)]


@cache
def functions(file: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_complaint_stands_in_one_row() -> None:
    assert Counter(of for of, _, _ in ROWS) == Counter(IDS)


def test_a_row_without_a_test_says_why() -> None:
    tested = {of for of, *_ in NAMED}
    untested = {of: here for of, _, here in ROWS if of not in tested and not of.startswith("H")}
    assert [of for of, here in untested.items() if not here.startswith(("does not apply: ", "not offered: "))] == []


@pytest.mark.parametrize(("of", "file", "name", "case"), NAMED)
def test_a_named_test_exists_and_carries_the_id(of: str, file: str, name: str, case: str) -> None:
    function = functions(file)[name]
    assert name.startswith("test_")
    if case:
        decorators = [node for each in function.decorator_list for node in ast.walk(each)]
        assert case in [node.value for node in decorators if isinstance(node, ast.Constant)]
    assert of in re.split(r"[\W_]", case or name)
