"""Style checker for docstrings, comments, help texts, messages and Markdown pages.

python scripts/prose.py               check all files in git
python scripts/prose.py PATH ...      check these files and folders

Prints `path:line: rule: text` for each finding and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

SELF = Path(__file__).resolve()
ROOT = SELF.parent.parent
TOOLS = (
    "ERRANT|Moses|MaxMatch|sacreBLEU|spaCy|aspell|langid|m2scorer|fastText|lemminflect|MeCab|"
    "sentencepiece|subword-nmt"
)
PHRASES = {
    "told|tells?|said": "reported, logged, listed, parsed from",
    "mend(s|ed|ing)?": "fix, patch",
    "(un)?touched": "noised, changed",
    "hand-made|home-made": "built-in, default",
    "(written|moved|kept|put|set|laid) aside|written whole|stays? whole": "atomic; temporary file",
    "go(es)? on(?! (to|the))|went on|going on": "resume, continue",
    "at hand": "available",
    "(un)?wanted": "resources; config",
    "disturb\\w*": "perturbation, noise",
    "(?<!standard\\s)deviations?": "standard deviation",
    "refus(e|es|ed|ing|al)": "reject",
    "(both|earlier|other|these|such|two|the paper's) works": "papers",
    "as \\S+ (has|have) (it|them)": "as in X",
    "one's own( \\w+)?|your own text": "your data",
    "(text|sentences|lines) without labels|(and|more|on) plain text": "unlabeled, monolingual data",
    "(?<!left-to-)right (words?|labels?|answers?|names?|tokens?|texts?|ones?)": "correct",
    "who does the work": "parallelism",
    "look-?alikes?": "duplicates",
    "(learned|learnt|learns?|knows?|known) by heart": "memorized",
    "stands?(?! (for|in|out)|-)|stood": "is, is stored in",
    "(lies?|lay|lying) (in|on|at|below|above|under|beside|behind|there)": "is, is stored in",
    "spoil(s|ed|t)?": "corrupt, change",
    "can not": "cannot",
    "(?<!there\\s)(is|are|was|were) no(?= \\w)(?! (longer|more|less|better|worse))": "is not a",
    "(?<!any\\s)other than": "different",
    "(?<!such\\s)as (cs|de|en|fr|gu|ja|kk|ru)": "such as",
    "many an?|so many|nothing but|without a word|by far|withal|lest|whence|thereof": "plain words",
    "for want of|a (line|word|token) each|at heart|in vain|strangers?": "plain words",
    "cuts?( \\w+)? into": "split, segment, tokenize",
    "(?<!word\\s)(?<!words\\s)(?<!sentence\\s)pieces?": "subwords; chunks; word pieces (BERT)",
    "of those(?=[,.;:)]|$)|what is left|all that (they|it) (is|are)": "the noun",
    "out of (its|their|the) place|undone|handed over|hands? over": "moved; reverted; passed",
    "(each|every) verb|verbs (that|which) (need|read|write|load)": "command",
    "trainings": "training runs",
    "valid (texts?|sets?)": "validation data, validation set",
    "(?<=,\\s)too(?=[.;:)]|$)": "also",
    f"(?<!trained\\s)(?<!written\\s)(?<!identified\\s)by ({TOOLS})": "with",
    f"in the format of ({TOOLS}|Hugging Face|fairseq|transformers|GECToR|numpy)": "in X format",
}
"""Replacements by regular expressions of banned words and phrases."""
BRITISH = (
    "\\w*(tokenis|normalis|optimis|initialis|generalis|summaris|recognis|organis|serialis|"
    "binaris|minimis|maximis|regularis|parallelis|memoris|penalis|randomis|specialis|utilis|"
    "visualis|capitalis|synchronis|standardis|characteris|emphasis(?=e)|realis)(e|es|ed|er|ers|ing|"
    "ation|ations)|(un)?(label|model|cancel|travel|signal|level|channel|total)l(ed|ing)|"
    "(mis)?(behaviour|colour|favour|honour|neighbour|labour|flavour)\\w*|(centre|metre|fibre|"
    "licence|programme|catalogue|grey|artefact|judgement|analysed|"
    "learnt|spelt|burnt|whilst|amongst|defence|offence|afterwards|towards|backwards)s?"
)
PROPER_NOUNS = "Moses|Slurm|Ray|Python|Porter|Snover|Adam|Linux|Unix|Hugging|Unicode|English"
OPENING = re.compile(
    r"(What|How|Whether|That|Those|Tells?|Where|Who|When|Why|(Return|Yield|Read|Write|Find) of"
    r"|(?!Only)[A-Z][a-z]+ (what|how|whether|where|which|who|so))\b(?!ever)"
)
NOUNLESS = re.compile(
    r"(of|its|their|those|these|how|what|where|whether|which|who|drawn|as|in|or|and|it|that|at|"
    r"on|to|from|by)\b(?! (addition|bfloat16|float16))"
)
DEFAULT = re.compile(r"\(default[^()]*(\([^()]*\)[^()]*)*\)$")
PRINTS_DEFAULTS = re.compile(r"ArgumentDefaultsHelpFormatter|harness\.parser\(")
"""Parsers that append the default to each help text themselves."""
SKIPPED_DEFAULTS = (
    "None if required else []",
    "None",
    "False",
    "True",
    "''",
    "()",
    "[]",
    "argparse.SUPPRESS",
)
GENITIVES = re.compile(r"\bthe \w+ of (the|an?) \w+ of (the|an?)\b")
THESIS = re.compile(r"\b(the|a) thesis\b|\(thesis\b", re.IGNORECASE)
VERBLESS = re.compile(r"(?<=[.\]]) None: ")
SENTENCE = re.compile(r"(?=.*\b(a|an|and|are|be|for|in|is|not|of|or|the|to|with)\b)(\w+,? ){3}")
WORD = re.compile(r"[A-Za-z]+")
FILLERS = {"a", "an", "the", "of", "return", "yield", "this", "get", "and", "for", "to", "in"}
RULES = [
    (re.compile(rf"\b({pattern.replace(' ', chr(92) + 's+')})\b", re.IGNORECASE), instead)
    for pattern, instead in (*PHRASES.items(), (BRITISH, "American spelling"))
]
CODE = re.compile(
    r"``[^`]+``|`[^`\n]+`|\]\([^)]*\)|https?://\S+|\S*[\w.]/[\w./]+|\w+[._][a-z]\w*|\w+=|--[a-z-]+|\$[\w.]+"
)


@dataclass(frozen=True)
class Text:
    """A text for readers. `name` is what a docstring describes; `default` is that of an option."""

    kind: str
    line: int
    text: str
    name: str = ""
    default: str = "None"


def main() -> None:
    """Print the findings."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files and folders")
    paths = [path.resolve() for path in options.parse_args().paths] or [ROOT]
    findings = [
        f"{file.relative_to(ROOT)}:{line}: {rule}: {text}"
        for file in tracked_files()
        if any(file.is_relative_to(path) for path in paths)
        for line, rule, text in check_file(file)
    ]
    print(*findings, sep="\n", end="\n" if findings else "")
    sys.exit(bool(findings))


def tracked_files() -> list[Path]:
    """Return the Python, shell and Markdown files of the repository."""
    command = ("git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard")
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    paths = [ROOT / name for name in names if name.endswith((".py", ".sh", ".md", ".ci/run"))]
    return [path for path in paths if path.exists()]


def check_file(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, rule and text of each finding in a file."""
    source, parts = path.read_text(encoding="utf-8"), path.relative_to(ROOT).parts
    if path.suffix == ".md":
        texts = page_texts(source)
    elif path.suffix == ".py":
        texts = python_texts(source, strings="tests" not in parts and path != SELF)
    else:
        texts = shell_texts(source)
    for text in texts:
        yield from check_text(text)


def python_texts(source: str, strings: bool = True) -> Iterator[Text]:
    """Yield docstrings, comments, help texts and, with `strings`, other strings that are prose."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text("comment", token.start[0], token.string)
    tree = ast.parse(source)
    seen: set[int] = set()
    for text, node in (*docstrings(tree), *help_texts(tree)):
        if PRINTS_DEFAULTS.search(source):
            text = replace(text, default="None")
        seen.update(id(child) for child in ast.walk(node))
        yield text
    if not strings:
        return
    for node in ast.walk(tree):
        content = string_value(node)
        if id(node) not in seen and SENTENCE.search(content):
            seen.update(id(child) for child in ast.walk(node))
            yield Text("message", node.lineno, content)  # type: ignore[attr-defined]


def docstrings(tree: ast.AST) -> Iterator[tuple[Text, ast.AST]]:
    """Yield the docstrings of modules, classes, functions and variables."""
    for parent in ast.walk(tree):
        body = getattr(parent, "body", None)
        name = getattr(parent, "name", "")
        for node in body if isinstance(body, list) else ():
            if isinstance(node, ast.Expr) and (content := string_value(node.value)):
                yield Text("docstring", node.lineno, content, name), node
            name = ""
            if isinstance(node, ast.Assign | ast.AnnAssign):
                name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def help_texts(tree: ast.AST) -> Iterator[tuple[Text, ast.AST]]:
    """Yield the help texts of argparse options and of declared options (`options.option`)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        value, default = keywords.get("help"), keywords.get("default")
        if ast.unparse(node.func) == "option" and len(node.args) > 1:
            value, default = node.args[1], None  # the default is generated
        if value and (content := string_value(value)):
            yield Text("help", value.lineno, content, default=ast.unparse(default or NONE)), value


NONE = ast.Constant(None)


def string_value(node: ast.AST | None) -> str:
    """Return the string of a literal, with `{}` for each expression of an f-string."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return string_value(node.func.value) if node.func.attr == "format" else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(string_value(value) or "{}" for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def shell_texts(source: str) -> Iterator[Text]:
    """Yield the comments of a shell script and the lines that print text."""
    for number, line in enumerate(source.splitlines(), 1):
        for match in re.finditer(r"(?<!\S)#(?!!)(.*)|\b(?:echo|printf|say|die) ([^#]+)", line):
            yield Text("comment", number, match[1] or match[2] or "")


def page_texts(source: str) -> Iterator[Text]:
    """Yield the lines of a Markdown page that are outside of its code blocks, by paragraph."""
    source = re.sub(
        r"<!--.*?-->", lambda match: re.sub(r"[^\n]", " ", match[0]), source, flags=re.S
    )
    paragraph: list[str] = []
    in_code = False
    for number, line in enumerate((*source.splitlines(), ""), 1):
        is_fence = line.lstrip().startswith("```")
        if paragraph and (is_fence or in_code or not line.strip()):
            yield Text("page", number - len(paragraph), "\n".join(paragraph))
            paragraph = []
        in_code ^= is_fence
        if line.strip() and not is_fence and not in_code:
            paragraph.append(line)


def check_text(text: Text) -> Iterator[tuple[int, str, str]]:
    """Yield the findings in one text."""
    prose = CODE.sub(lambda match: re.sub(r"[^\n]", "`", match[0]), text.text)
    several_lines = text.kind in ("docstring", "page")
    for pattern, instead in RULES:
        for match in pattern.finditer(prose):
            if match[0].isupper():  # a placeholder in the usage of a command
                continue
            line = text.line + (prose.count("\n", 0, match.start()) if several_lines else 0)
            yield line, f"not {' '.join(match[0].split())!r} but {instead}", context(prose, match)
    if text.kind != "page" and (thesis := THESIS.search(prose)):
        yield text.line, "not 'the thesis' but Kiyono (2022), or nothing", context(prose, thesis)
    first = text.text.strip().split("\n")[0]
    if text.kind in ("docstring", "help") and GENITIVES.search(first):
        yield text.line, "two genitives in a row: use a compound noun", first
    if text.kind == "docstring":
        yield from docstring_faults(text, first)
    elif text.kind == "help":
        for rule in help_faults(text):
            yield text.line, rule, text.text


def docstring_faults(text: Text, first: str) -> Iterator[tuple[int, str, str]]:
    """Yield the findings in a docstring, whose first line is `first`."""
    opening = OPENING.match(first)
    if opening:
        yield text.line, f"docstring opens with {opening[0]}", first
    words = [word.lower() for word in WORD.findall(first)]
    named = {stem(word) for word in WORD.findall(split_name(text.name))}
    if named and {stem(word) for word in words if word not in FILLERS} <= named:
        yield text.line, "docstring repeats the name", first
    for match in VERBLESS.finditer(text.text):
        line = text.line + text.text.count("\n", 0, match.start())
        yield line, "sentence without a verb: write (None: ...)", context(text.text, match)


def help_faults(text: Text) -> Iterator[str]:
    """Yield the rules that a help text breaks: `noun phrase with unit, range (default: X)`."""
    if match := NOUNLESS.match(text.text):
        yield f"help opens with {match[0]!r} in place of a noun"
    if re.match(rf"(?!{PROPER_NOUNS})[A-Z][a-z]+\b(?!-)", text.text):
        yield "help opens with a capital"
    if text.text.endswith(".") and not text.text.endswith("..."):
        yield "help ends with a full stop"
    has_default = text.default not in SKIPPED_DEFAULTS
    if (has_default or "(default" in text.text) and not DEFAULT.search(text.text):
        yield "help does not end with (default: X)"
    elif re.search(r"\bdefault\b(?!:|, and)", text.text) and "(default:" not in text.text:
        yield "help names a default in a form of its own"


def context(text: str, match: re.Match[str]) -> str:
    """Return the words around a match."""
    before, after = text[: match.start()].split(), text[match.end() :].split()
    return " ".join((*before[-4:], match[0], *after[:4])).replace("\n", " ")


def split_name(name: str) -> str:
    """Return the words of an identifier in snake case or camel case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)


def stem(word: str) -> str:
    """Return a word in lower case without its plural ending."""
    return word.lower().rstrip("s")


if __name__ == "__main__":
    main()
