# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate: the documents of `PAGES`, and docstrings, are plain English. Rules and exceptions are in `english.toml`.

Ruff judges how a docstring begins (D401). Its rules know nothing of Markdown, and no linter on PyPI takes patterns of
one's own without a download: vale's wheel fetches its program, proselint has a fixed list.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from gates.gate import Context, GateFailure

DATA = Path(__file__).with_name("english.toml")
PAGES = ("*.md", "docs/**/*.md", "roles/*/README.md")
MODULES = ("plugins/**.py", "roles/*/files/**.py")
# Stands for code in a sentence: one word, which no rule finds.
CODE = "CODE"
# What a docstring quotes: `code`, "words of a program", {a: mapping}, an address.
QUOTED = re.compile(r"`[^`]*`|\"[^\"\n]*\"|\{[^{}\n]*\}|\bhttps?://\S+")
# A full stop ends a sentence, also before the name of a program in small letters; not that of an abbreviation.
END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!\bvs\.)(?<=[.!?])[)*_]*\s+")
WORD = re.compile(r"[^\W_][\w'’./-]*")


@dataclass(frozen=True, slots=True)
class Passage:
    """Text that reads as a whole: a paragraph, an item of a list, a cell of a table."""

    line: int  # that of its first word, from 1
    text: str  # its lines are those of the file


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that plain English has no need of, and what to write instead."""

    name: str
    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True, slots=True)
class Rules:
    """The contents of english.toml."""

    longest: int  # words of a sentence
    patterns: tuple[Rule, ...]
    allowed: Mapping[str, int]  # file -> findings that it still has


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that breaks a rule."""

    line: int
    said: str


def load(text: str) -> Rules:
    """Return the rules that the text of english.toml holds."""
    data = tomllib.loads(text)
    patterns = (
        Rule(name, re.compile(one["pattern"], re.IGNORECASE | re.VERBOSE), one["instead"])
        for name, one in data["rules"].items()
    )
    return Rules(longest=data["longest-sentence"], patterns=tuple(patterns), allowed=data["allowed"])


def check_english(context: Context) -> None:
    """Fail with every finding of a file that has more than english.toml allows, or fewer."""
    rules = load(DATA.read_text(encoding="utf-8"))
    paths = context.files(*(f":(glob){pattern}" for pattern in PAGES), *MODULES)
    found = {path.as_posix(): list(judge(path, context.checkout / path, rules)) for path in paths}
    problems = list(compare(found, rules.allowed))
    for problem in problems:
        context.say(problem)
    if problems:
        raise GateFailure(f"{len(problems)} problems, the first: {problems[0]}")
    context.say(f"{len(paths)} files, {sum(map(len, found.values()))} findings, all of them allowed")


def compare(found: Mapping[str, list[Finding]], allowed: Mapping[str, int]) -> Iterator[str]:
    """Yield what is to be mended: findings of a file beyond its allowance, and allowances that are too high."""
    for path in sorted({*found, *allowed}):
        findings, most = found.get(path, []), allowed.get(path, 0)
        if len(findings) > most:
            yield from (f"{path}:{one.line}: {one.said}" for one in findings)
        elif len(findings) < most:
            yield f"{path}: {len(findings)} findings are left; lower the {most} of tests/gates/english.toml to that"


def judge(name: Path, path: Path, rules: Rules) -> Iterator[Finding]:
    """Yield what a page or the docstrings of a module break, in the order of the file."""
    text = path.read_text(encoding="utf-8")
    passages = passages_of_page(text) if name.suffix == ".md" else passages_of_module(text)
    for passage in passages:
        yield from findings(passage, rules)


def findings(passage: Passage, rules: Rules) -> Iterator[Finding]:
    """Yield what a passage breaks: banned words first, then sentences that are too long."""

    def line(offset: int) -> int:
        return passage.line + passage.text.count("\n", 0, offset)

    for rule in rules.patterns:
        for match in rule.pattern.finditer(passage.text):
            said = " ".join(match[0].split())
            yield Finding(line(match.start()), f"[{rule.name}] '{said}': {rule.instead}")
    for start, sentence in sentences(passage.text):
        words = WORD.findall(sentence)
        if len(words) > rules.longest:
            said = f"[long] a sentence of {len(words)} words, '{' '.join(words[:5])} ...'"
            yield Finding(line(start), f"{said}: divide it, {rules.longest} are the most")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence with its offset."""
    start = 0
    for end in [*(match.end() for match in END.finditer(text)), len(text)]:
        yield start, text[start:end]
        start = end


def passages_of_page(text: str) -> Iterator[Passage]:
    """Yield the prose of a Markdown page: no code, no addresses, no HTML."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline" and token.map:
            yield Passage(token.map[0] + 1, _plain(token.children or []))


def _plain(children: Iterable[Token]) -> str:
    said: list[str] = []
    for child in children:
        if child.type == "text":
            said.append(child.content)
        elif child.type == "code_inline":
            said.append(CODE)
        elif child.type in ("softbreak", "hardbreak"):
            said.append("\n")
    return "".join(said)


def passages_of_module(text: str) -> Iterator[Passage]:
    """Yield the paragraphs of all docstrings of a module."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield from _paragraphs(first.lineno, first.value.value)


def _paragraphs(start: int, docstring: str) -> Iterator[Passage]:
    """Divide a docstring at empty lines, and before each item of a list; what is indented or a prompt is code."""
    lines = docstring.splitlines()
    indent = min((len(one) - len(one.lstrip()) for one in lines[1:] if one.strip()), default=0)
    collected: list[str] = []
    for number, line in enumerate([*lines, ""]):
        words = line.strip()
        code = number > 0 and (line[indent:].startswith("    ") or words.startswith((">>>", "..", ":")))
        item = words.startswith(("- ", "* "))
        if collected and (not words or code or item):
            yield Passage(start + number - len(collected), QUOTED.sub(CODE, "\n".join(collected)))
            collected = []
        if words and not code:
            collected.append(words)
