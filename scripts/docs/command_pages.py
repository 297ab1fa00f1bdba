"""The command reference: a page for each command of fairseq-ssl, generated from its parser."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fairseq_ssl.cli.main import COMMANDS, command_parser, load_command
from fairseq_ssl.filters.chain import FILTERS
from fairseq_ssl.noise.block_noise import NOISES
from fairseq_ssl.options import describe, options_of
from fairseq_ssl.text.specs import describe_registry, format_value

USAGE_WIDTH = 88
GROUPS = {
    "Prepare text": (
        *("filter", "learned-filter", "noise", "confusion-sets", "tokenize", "subwords"),
        *("tag", "postprocess"),
    ),
    "Correct grammar": ("correct", "serve", "edits", "spelling", "learner-errors", "m2"),
    "Translate": ("back-translate", "rerank"),
    "Classify": ("classify",),
    "Score and analyze": ("score", "report", "analyze", "position-data"),
    "Tools": ("average", "export", "user-dir", "completion", "doctor"),
}
"""Commands by topic, in the order of the navigation."""
GUIDES = {
    "analyze": "positions",
    "average": "export",
    "back-translate": "back_translation",
    "classify": "classification",
    "confusion-sets": "noise",
    "correct": "correction",
    "edits": "edit_tagging",
    "export": "export",
    "filter": "filters",
    "learned-filter": "filters",
    "learner-errors": "noise",
    "m2": "scoring",
    "noise": "noise",
    "position-data": "positions",
    "report": "reports",
    "rerank": "reranking",
    "score": "scoring",
    "serve": "correction_server",
    "spelling": "correction",
}
"""The guide that explains a command."""
GUIDES_FOLDER = Path(__file__).resolve().parents[2] / "docs/guides"
TITLES = {
    "positional arguments": "Arguments",
    "filters": "Filter options",
    "model": "Model options",
    "noise": "Noise options",
    "scores": "Score options",
    "search": "Search options",
    "sentences": "Sentence options",
    "server": "Server options",
    "text": "Text options",
}
"""Headings of groups of arguments whose title is not a heading."""
REGISTRIES: dict[str, Mapping[str, type[Any]]] = {"Methods": NOISES, "Filters": FILTERS}
"""Classes whose names and options are the values of an option, by the heading of their section."""
INTRODUCTION = """\
# Commands

Each page describes a command: its usage, arguments and options with their defaults, and examples.
The pages are generated from the parsers, so `fairseq-ssl COMMAND --help` prints the same text. The
options that the plug-in adds to `fairseq-train` and `fairseq-generate` are listed on the page
[Options of fairseq-train](fairseq-options.md).

"""
CONVENTIONS = """
## Input and output

Text is UTF-8, with one sentence per line. A name that ends with `.gz` is a compressed file, and `-`
is stdin. A command writes to a temporary file and renames it, so an output is complete or absent.
Beside each output is a `.json` file with the options that generated it. A command with the option
`--force` overwrites an existing output only if it is set. All other commands overwrite theirs.

A byte-order mark at the beginning is removed. If the first line ends with CR LF, every CR before a
LF is removed. In both cases, a line on stderr names the file. UTF-16 and UTF-32 are rejected.

A line ends at a LF only. Any other CR is white space between tokens. fairseq's commands also end a
line at such a CR, so that a file has more lines for them. `fairseq-ssl filter --filter encoding`
drops these lines.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | success |
| 1 | error in the data: a missing, unreadable or malformed file |
| 2 | usage error: an unknown option, a value out of range, or incompatible options |
| 130 | interrupted by Ctrl-C |

An error is one line on stderr. `fairseq-ssl --debug COMMAND` shows the traceback.
"""


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {
        "index.md": index_page(),
        **{f"{command}.md": command_page(command) for command in COMMANDS},
    }


def index_page() -> str:
    """Return the list of commands."""
    parts = [INTRODUCTION]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n\n| command | description |\n| --- | --- |")
        parts += [
            f"| [`fairseq-ssl {name}`]({name}.md) | {escape(COMMANDS[name])} |" for name in names
        ]
        parts.append("")
    return "\n".join(parts) + CONVENTIONS


def command_page(command: str) -> str:
    """Return the page of a command, with a section for each subcommand."""
    parser = command_parser(command)
    parts = [f"# fairseq-ssl {command}", sentence(COMMANDS[command]), usage(parser)]
    subcommands = list(subcommands_of(parser))
    if subcommands:
        parts.append(subcommand_table(parser, subcommands))
    else:
        parts += options(parser, is_page=True)
    parts.append(f"## Examples\n\n```bash\n{dedent(load_command(command).EXAMPLES)}\n```")
    for name, summary, subcommand in subcommands:
        parts += [f"## fairseq-ssl {command} {name}", sentence(summary), usage(subcommand)]
        parts += options(subcommand, is_page=False)
    parts.append(see_also(command))
    return "\n\n".join(parts) + "\n"


def subcommands_of(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield name, summary and parser of each subcommand."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield choice.dest, choice.help or "", action.choices[choice.dest]


def subcommand_table(
    parser: argparse.ArgumentParser, subcommands: list[tuple[str, str, argparse.ArgumentParser]]
) -> str:
    """Return a table of subcommands with links to their sections."""
    rows = ["| subcommand | description |", "| --- | --- |"]
    for name, summary, subcommand in subcommands:
        rows.append(f"| [`{name}`](#{anchor(subcommand.prog)}) | {escape(summary)} |")
    return "\n".join(rows)


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and pymdownx.slugs build it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage as a block of code."""
    parser.formatter_class = functools.partial(argparse.HelpFormatter, width=USAGE_WIDTH)
    lines = parser.format_usage().removeprefix("usage: ").rstrip().splitlines()
    indented = [f"    {line.strip()}" for line in lines[1:]]
    return "\n".join(["```{ .text .usage }", lines[0], *indented, "```"])


def options(parser: argparse.ArgumentParser, is_page: bool) -> Iterator[str]:
    """Yield the groups of arguments, each with a heading if the parser has a page of its own."""
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if is_documented(action)]
        if not actions:
            continue
        title, _, note = (group.title or "").partition("; ")
        title = TITLES.get(title, sentence(title).rstrip("."))
        yield f"## {title}" if is_page else f"**{title}**"
        if note:
            yield sentence(note)
        description = group.description or ""
        listed = [
            title for title in REGISTRIES if describe_registry(REGISTRIES[title]) in description
        ]
        if description and not listed:
            yield escape(description)
        yield table(actions)
        for title in listed:
            yield from methods(title, actions[0].option_strings[0])


def methods(title: str, flag: str) -> Iterator[str]:
    """Yield the section of a registry: a table of options for each of its classes."""
    yield f"## {title}"
    yield f"Names for `{flag}`, each followed by its options, as in `NAME:OPTION=VALUE`."
    for name, kind in REGISTRIES[title].items():
        yield f"### {name}"
        yield escape((kind.__doc__ or "").splitlines()[0])
        rows = []
        for key, declared in options_of(kind).items():
            default = escape(format_value(declared.default))
            rows.append(
                f"| {code(key.replace('_', '-'))} | {default} | {escape(describe(declared))} |"
            )
        yield rows_table(rows)


def is_documented(action: argparse.Action) -> bool:
    """Return True for an argument with a row of its own."""
    return not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)) and (
        action.help != argparse.SUPPRESS
    )


def table(actions: list[argparse.Action]) -> str:
    """Return a table of arguments: name, default, description."""
    rows = []
    for action in actions:
        description, default = split_default(help_of(action), action)
        rows.append(f"| {names_of(action)} | {default} | {description} |")
    return rows_table(rows)


def rows_table(rows: list[str]) -> str:
    """Return a table of names, defaults and descriptions."""
    lines = ["| name | default | description |", "| --- | --- | --- |", *rows]
    return '<div class="options" markdown>\n\n' + "\n".join(lines) + "\n\n</div>"


def names_of(action: argparse.Action) -> str:
    """Return the flags of an argument, and its values."""
    values = metavar_of(action)
    if not action.option_strings:  # without the brackets of an optional argument
        return code(values[1:-1] if action.nargs in ("?", "*") else values)
    flags = ", ".join(code(flag) for flag in action.option_strings)
    return f"{flags} {code(values)}" if values else flags


def metavar_of(action: argparse.Action) -> str:
    """Return the placeholder of an argument's values, or an empty string for a switch."""
    if action.nargs == 0:
        return ""
    formatter = argparse.HelpFormatter("")
    get_default = (
        formatter._get_default_metavar_for_optional
        if action.option_strings
        else formatter._get_default_metavar_for_positional
    )
    return str(formatter._format_args(action, get_default(action)))


def help_of(action: argparse.Action) -> str:
    """Return the help text with its placeholders replaced."""
    return argparse.HelpFormatter("")._expand_help(action) if action.help else ""


def split_default(text: str, action: argparse.Action) -> tuple[str, str]:
    """Return the description and the default, which the help text has in parentheses."""
    default = "required" if action.required and action.option_strings else ""
    found = re.search(r" ?\((?:default: ((?:[^()]|\([^()]*\))*))\)", text)
    if found:
        text, default = text[: found.start()] + text[found.end() :], found[1]
    elif not default and isinstance(action, argparse._StoreTrueAction):
        default = "off"
    return escape(text), escape(default)


def sentence(text: str) -> str:
    """Return a summary as a sentence."""
    text = text.removesuffix(", ...").rstrip(".")
    return escape(text[:1].upper() + text[1:]) + "."


def see_also(command: str) -> str:
    """Return the last section, with links."""
    links = [
        "- [Exit codes](index.md#exit-codes) and [input and output](index.md#input-and-output)"
    ]
    if command in GUIDES:
        heading = (GUIDES_FOLDER / f"{GUIDES[command]}.md").read_text("utf-8").splitlines()[0]
        links.insert(0, f"- [Guide: {heading.removeprefix('# ')}](../guides/{GUIDES[command]}.md)")
    return "## See also\n\n" + "\n".join(links)


def dedent(text: str) -> str:
    """Remove the indentation that all lines share."""
    lines = text.strip("\n").splitlines()
    width = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[width:] for line in lines)


def code(text: str) -> str:
    """Return inline code, in which Markdown escapes nothing."""
    return f"`{text}`"


def escape(text: str) -> str:
    """Escape text for a cell of a table, and mark flags as code."""
    pieces = re.split(r"(`[^`]*`|(?<![\w-])--[a-z][\w-]*)", text)
    return "".join(
        code(piece.strip("`"))
        if index % 2
        else re.sub(r"([*_|\[\]])", r"\\\1", piece).replace("<", "&lt;")
        for index, piece in enumerate(pieces)
    )
