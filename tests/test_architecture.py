"""The house as a whole: no import cycles, small folders, few small files, one meaning per class name.

The direction of imports between the rooms is checked by import-linter (pyproject.toml).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grimp

import palpate

ROOT = Path(palpate.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_FILES_IN_A_FOLDER = 15
MOST_MODULES_AT_THE_ROOT = 9
SMALL, MOST_SMALL_FILES = 60, 19
"""Package `__init__` files count."""
LONGEST_FILE = 420
LONGEST_FUNCTION = 50


def cycles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules that import each other, directly or not: Kosaraju's strongly connected components."""
    importers: dict[str, set[str]] = {module: set() for module in imports}
    for module, imported in imports.items():
        for one in imported:
            importers[one].add(module)
    order: list[str] = []
    seen: set[str] = set()
    for module in imports:
        order += _after(module, imports, seen)
    seen = set()
    groups = [set(_after(module, importers, seen)) for module in reversed(order)]
    return [group for group in groups if len(group) > 1]


def _after(start: str, edges: dict[str, set[str]], seen: set[str]) -> Iterator[str]:
    """Modules that can be reached from one, each after those that it reaches."""
    if start in seen:
        return
    seen.add(start)
    for following in sorted(edges[start]):
        yield from _after(following, edges, seen)
    yield start


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}) == [{"b", "c"}]
    assert cycles({"a": {"b"}, "b": set()}) == []


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions count too."""
    graph = grimp.build_graph("palpate", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    assert cycles(imports) == []


def test_folders_are_small() -> None:
    per_folder = Counter(file.parent.relative_to(ROOT).as_posix() for file in FILES)
    assert per_folder["."] <= MOST_MODULES_AT_THE_ROOT
    large = {folder: n for folder, n in per_folder.items() if n > MOST_FILES_IN_A_FOLDER}
    assert large == {}


def test_few_files_are_tiny_and_none_is_long() -> None:
    lines = {file.relative_to(ROOT).as_posix(): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    small = sorted(name for name, n in lines.items() if n < SMALL)
    assert len(small) <= MOST_SMALL_FILES, small
    assert {name: n for name, n in lines.items() if n > LONGEST_FILE} == {}


def test_a_function_fits_on_a_screen() -> None:
    """Its docstring aside."""
    long = {}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = ast.get_docstring(node) is not None
                first = node.body[1] if documented and len(node.body) > 1 else node.body[0]
                n = (node.end_lineno or 0) - first.lineno + 1
                if n > LONGEST_FUNCTION:
                    long[f"{file.relative_to(ROOT).as_posix()}:{node.name}"] = n
    assert long == {}


def test_a_class_name_has_one_meaning() -> None:
    """Nested and private classes too."""
    where: dict[str, list[str]] = {}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(file.relative_to(ROOT).as_posix())
    assert {name: files for name, files in where.items() if len(files) > 1} == {}
