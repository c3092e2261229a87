# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docstrings and comments of the product name in backquotes is there: modules, classes, functions, fields."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
# Words of other systems that the code itself neither has nor writes.
FOREIGN: Final = {
    "Contain": "a word of Slurm's PrologFlags",
    "OutOfcpu": "a reason of the kubelet",
    "_total": "the Prometheus client's",
    "mig": "a driver's word for a device",
    "perf_class": "a property of a vertex in Fluxion",
    "resources_available": "an attribute of a vnode in PBS",
    "slurm_partition_a_b": "the example of a group's name",
}
_OF_PYTHON: Final = {*keyword.kwlist, *dir(builtins), *sys.stdlib_module_names}
_QUOTED: Final = re.compile(r"(?<!`)(?:``([^`]+)``|`([^`]+)`)(?!`)")
_PATH: Final = re.compile(r"[a-z_]\w*\.py|[a-z_][a-z_0-9]*(?:/[a-z_0-9]+)*(?:/|/[a-z_0-9]+(?:\.py)?)")
# Fields of Kubernetes' objects have an inner capital, and begin with none.
_WORD: Final = re.compile(r"[a-z_][a-z_]+|[A-Z][a-z]+(?:[A-Z][a-z]+)*")
_MEMBER: Final = re.compile(r"(\w+)\.([a-z_]+|[A-Z][a-z]+(?:[A-Z][a-z]+)*)")
# Most files have no comment with a backquote, and need not be cut into tokens to find it.
_MAY_QUOTE: Final = re.compile(r"#.*`")
_SEE: Final = re.compile(r"\bsee $", re.IGNORECASE)
# `word` does something, at the beginning of a clause.
_CLAUSE: Final = re.compile(r"(?:^|[.;:,(] )$")
_VERB: Final = re.compile(r" [a-z]+s\b")


class Scope:
    """What one program has, or one layer of it."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        # Files, folders, classes and functions; and these with all other identifiers and words of texts.
        self.places: set[str] = set()
        self.words: set[str] = set()


class Remark(NamedTuple):
    """A docstring or a comment, on one line; of a class's or function's docstring also the words in its code."""

    line: int
    text: str
    own: frozenset[str] | None = None


def product() -> dict[str, str]:
    """Return the source of each Python file of the product by its path."""
    files = [*(CHECKOUT / "plugins").rglob("*.py"), *CHECKOUT.glob("roles/*/files/**/*.py")]
    return {path.relative_to(CHECKOUT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(files)}


def program_and_layer(path: str) -> tuple[str, str]:
    """Return the folders in which a pointer of this file leads to something: of a role one program, or all plugins."""
    parts = path.split("/")
    if parts[0] == "roles":
        return "/".join(parts[:4]), "/".join(parts[:5])
    return parts[0], "/".join(parts[: 3 if parts[1] == "module_utils" else 2])


@cache
def remarks_and_rest(source: str) -> tuple[list[Remark], ast.Module, set[int]]:
    """Return docstrings and comments with a backquote; the tree; and the ids of the constants that are docstrings."""
    tree = ast.parse(source)
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    documented = [node for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node)]
    docstrings = {id(node.body[0].value) for node in documented if isinstance(node.body[0], ast.Expr)}
    remarks: list[Remark] = []
    for node in documented:
        text = " ".join((ast.get_docstring(node) or "").split())
        if "`" not in text:
            continue
        own = (
            None if isinstance(node, ast.Module) else frozenset(word for word, _is_place in words_of(node, docstrings))
        )
        remarks.append(Remark(node.body[0].lineno, text, own))
    if _MAY_QUOTE.search(source):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and "`" in token.string:
                remarks.append(Remark(token.start[0], token.string))
    return remarks, tree, docstrings


def words_of(tree: ast.AST, docstrings: set[int]) -> Iterator[tuple[str, bool]]:
    """Yield each name in the code and each word of its texts, with whether it is the name of a class or function."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, True
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name, False
            case ast.alias():
                yield from ((word, False) for word in re.findall(r"\w+", f"{node.name} {node.asname}"))
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield from ((word, False) for word in re.findall(r"\w+", text))


def scopes_of(sources: dict[str, str]) -> dict[str, Scope]:
    """Return what each program and each layer has."""
    found: dict[str, Scope] = defaultdict(Scope)
    for path, source in sources.items():
        _remarks, tree, docstrings = remarks_and_rest(source)
        named = list(words_of(tree, docstrings))
        stem = path.removesuffix(".py")
        for scope in {found[name] for name in program_and_layer(path)}:
            scope.paths |= {path, stem, *(parent.as_posix() for parent in Path(path).parents)}
            scope.places |= {*stem.split("/"), *(word for word, is_place in named if is_place)}
            scope.words |= scope.places | {word for word, _is_place in named}
    return found


def leads_nowhere(remark: Remark, match: re.Match[str], program: Scope, layer: Scope) -> bool:
    """Return whether what stands in backquotes is meant as something of ours and is not there."""
    quoted, before = match.group(1) or match.group(2), remark.text[: match.start()]
    if _PATH.fullmatch(quoted):
        return not any(f"/{path}".endswith("/" + quoted.rstrip("/")) for path in program.paths)
    if _SEE.search(before):
        return quoted.rpartition(".")[2] not in layer.places
    member = _MEMBER.fullmatch(quoted)
    if member and member.group(1) in program.places:
        return member.group(2) not in program.words
    if not _WORD.fullmatch(quoted) or quoted in _OF_PYTHON or quoted in FOREIGN:
        return False
    if remark.own is not None and _CLAUSE.search(before) and _VERB.match(remark.text, match.end()):
        # What does something is a place, or the field or argument that is described.
        return quoted not in program.places | remark.own
    return quoted not in program.words


def dangling(sources: dict[str, str]) -> list[str]:
    """Return each pointer that leads nowhere, with its file, its line and the words before it."""
    found: list[str] = []
    scopes = scopes_of(sources)
    for path, source in sources.items():
        program, layer = (scopes[name] for name in program_and_layer(path))
        for remark in remarks_and_rest(source)[0]:
            for match in _QUOTED.finditer(remark.text):
                if leads_nowhere(remark, match, program, layer):
                    before, quoted = remark.text[: match.start()][-30:], match.group(1) or match.group(2)
                    found.append(f"{path}:{remark.line}: ...{before}`{quoted}`")
    return found


@pytest.mark.prose
def test_each_pointer_in_a_docstring_or_comment_of_the_product_leads_somewhere() -> None:
    assert dangling(product()) == []


@pytest.mark.prose
def test_each_foreign_word_is_in_use() -> None:
    remarks = " ".join(remark.text for source in product().values() for remark in remarks_and_rest(source)[0])
    assert [word for word in FOREIGN if f"`{word}`" not in remarks] == []


TREE = "roles/example/files/example/policy/tree.py"
OTHER = "roles/example/files/example/graph/other.py"
CODE = "class Tree:\n    def divide(self, total):\n        self.lost = {'kind': total}\n"


def found_in(remark: str) -> list[str]:
    """Return what is dangling in a remark of a small program."""
    found = dangling({TREE: f"# {remark}\n{CODE}", OTHER: "def register():\n    pass\n"})
    return [one.partition("...")[2] for one in found]


def test_what_is_there_may_be_named() -> None:
    for remark in (
        "`policy/tree` and `policy/tree.py`, `graph/`, `tree.py`, see `divide`, see `policy`, see `Tree.divide`",
        "`Tree.divide` takes `total` and keeps `lost` and ``kind``; `register`, `None`, `json`, `while`, `mig`",
        "`spec.nodeName`, `nodeName`, `JOB/RUN`, `/etc/slurm.conf`, `qstat -f`, `v1`, ```gone```",
    ):
        assert found_in(remark) == []


def test_what_is_not_there_is_found() -> None:
    for remark, quoted in (
        ("`policy/gone`", "`policy/gone`"),
        ("`other/tree`", "`other/tree`"),
        ("`gone.py`", "`gone.py`"),
        ("what `Gone` keeps", "what `Gone`"),
        ("``gone`` does it", "`gone`"),
        ("`Tree.gone`", "`Tree.gone`"),
    ):
        assert found_in(remark) == [f"# {remark.partition('`')[0]}{quoted[quoted.index('`') :]}"]


def test_see_leads_to_code_of_the_same_layer_and_not_to_a_field() -> None:
    assert found_in("(see `lost`)") == ["# (see `lost`"]
    assert found_in("(see `register`)") == ["# (see `register`"]
    assert found_in("See `gone`.") == ["# See `gone`"]


def test_what_does_something_is_code_or_belongs_to_what_is_described() -> None:
    def found(docstring: str) -> list[str]:
        described = f'class Described:\n    """{docstring}"""\n\n    field = 0\n'
        return [one.partition("...")[2] for one in dangling({TREE: CODE + described})]

    assert found("Kept; `divide` renews it, `policy` too. `field` says more, by `total`.") == []
    assert found("Kept; `total` renews it.") == ["Kept; `total`"]
