"""The code blocks of a page of documentation, and a bash session that runs them."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT, environment

NEEDS = ("data", "gpu", "cluster", "install", "server")
"""Words of `<!-- needs: WORD -->`: why the block after it does not run in a test."""
REGISTER = "fairseq_ssl.register()"
SHOWN = ("text", "yaml", "json", "toml")
"""Languages of blocks that are shown only."""

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks) *$",
    re.MULTILINE | re.DOTALL,
)
MARKER = re.compile(r"<!-- (needs|within): (.*?) -->\s*\Z")
DECIMAL = r"\d+\.\d+"
SYMBOL = re.compile(r"[|&;<>()]+")


class Block(NamedTuple):
    """A code block."""

    language: str
    text: str
    line: int
    """Line of the fence in the page, from 1."""
    needs: str
    """Word of the marker before it, or an empty string."""
    within: float = 0
    """Maximum difference of decimal numbers in the output, which can depend on the CPU."""


def blocks(page: str) -> Iterator[Block]:
    """Yield the code blocks of a page."""
    for found in FENCE.finditer(page):
        before = page[: found.start()]
        marker = MARKER.search(before)
        words = found["info"].split()
        yield Block(
            language=words[0] if words else "",
            text=textwrap.dedent(found["body"]),
            line=before.count("\n") + 1,
            needs=marker[2] if marker and marker[1] == "needs" else "",
            within=float(marker[2]) if marker and marker[1] == "within" else 0,
        )


def transcript(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output shown below it."""
    steps: list[tuple[str, str]] = []
    is_continued = False
    for line in text.splitlines(keepends=True):
        line = "> \n" if line == ">\n" else line  # an empty line of a here-document
        if is_continued or line.startswith(("$ ", "> ")):
            command = line if is_continued and not line.startswith("> ") else line[2:]
            if line.startswith("$ "):
                steps.append((command, ""))
            else:
                steps[-1] = (steps[-1][0] + command, "")
            is_continued = line.endswith("\\\n")
        else:
            assert steps, f"a console block begins with output: {line}"
            steps[-1] = (steps[-1][0], steps[-1][1] + line)
    return steps


def matches(shown: str, output: str, within: float = 0) -> bool:
    """Return True if the output is the one shown, in which `...` matches any text.

    Decimal numbers may differ by up to `within`.
    """
    parts = re.split(rf"(\.\.\.|{DECIMAL})" if within else r"(\.\.\.)", shown)
    patterns = [".*?" if part == "..." else re.escape(part) for part in parts]
    if within:
        patterns[1::2] = [one if one == ".*?" else f"({DECIMAL})" for one in patterns[1::2]]
    found = re.fullmatch("".join(patterns), output, re.DOTALL)
    numbers = [float(part) for part in parts[1::2] if part != "..."]
    return found is not None and all(
        abs(float(number) - expected) <= within
        for number, expected in zip(found.groups(), numbers, strict=True)
    )


def simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a bash block, without redirections and variables."""
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"<<'?(\w+)'?[^\n]*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\$\(fairseq-ssl user-dir\)|\$\{?\w+\}?", "1", text)
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        is_file = False
        for word in lexer:
            if SYMBOL.fullmatch(word):
                is_file = word[0] in "<>"
                if is_file and words and words[-1].isdigit():
                    words.pop()  # the number of a stream, as in 2>
                if not is_file:
                    yield from [words] if words else []
                    words = []
            elif not is_file:
                words.append(word)
            else:
                is_file = False
        yield from [words] if words else []


class Session:
    """A bash session in an empty folder that has the examples of the checkout."""

    def __init__(self, folder: Path, scripts: Path) -> None:
        (folder / "examples").symlink_to(ROOT / "examples")
        self._scripts = scripts
        self._count = 0
        self._bash = subprocess.Popen(
            ["bash", "--norc", "-euo", "pipefail"],
            cwd=folder,
            env=environment(PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(ROOT)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, text: str) -> tuple[bool, str]:
        """Run commands; return whether all ended with exit code 0, and what they printed."""
        return self._run(f"source {self._write(text, 'sh')}")

    def run_python(self, text: str) -> tuple[bool, str]:
        """Run a program, or a doctest. A server runs programs that register the package's names."""
        if re.search(r"^>>> ", text, re.MULTILINE):
            return self._run(f"python -m doctest -o ELLIPSIS {self._write(text, 'txt')}")
        suffix = "registers.py" if REGISTER in text else "py"
        return self._run(f"python {self._write(text, suffix)}")

    def _write(self, text: str, suffix: str) -> Path:
        self._count += 1
        path = self._scripts / f"block{self._count}.{suffix}"
        path.write_text(text, encoding="utf-8")
        return path

    def _run(self, command: str) -> tuple[bool, str]:
        stdin, stdout = self._bash.stdin, self._bash.stdout
        assert stdin is not None
        assert stdout is not None
        end = f"--- end of block {self._count} ---"
        stdin.write(f"{command} < /dev/null\nprintf '%s\\n' '{end}'\n")
        stdin.flush()
        printed = ""
        for line in stdout:
            if line.endswith(f"{end}\n"):
                return True, printed + line.removesuffix(f"{end}\n")
            printed += line
        return False, printed

    def close(self) -> None:
        """End the session."""
        self._bash.kill()
        self._bash.communicate()
