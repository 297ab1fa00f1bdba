"""Postprocessing of model output: fairseq-generate logs, unknown words, Japanese punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.blocks import unequal_lines
from fairseq_ssl.options import check, option
from fairseq_ssl.text.specs import MAX_DIGITS
from fairseq_ssl.text.tokenization import (
    MARKER,
    LineRewriter,
    detruecaser,
    moses_detokenizer,
    moses_option,
    subword_joiner,
    subwords_option,
)


def parse_generated_lines(
    lines: Iterable[str], field: str, name: str
) -> Iterator[tuple[str, int, str, str]]:
    """Yield the location, sentence index, score and text of each line with the prefix `field`.

    Args:
        lines: output of fairseq-generate.
        field: prefix of the lines, S, T or H. The score is an empty string for S and T.
        name: name of the file in messages.
    """
    score = r"([^\t]+)\t" if field == "H" else "()"
    for number, line in enumerate(lines, 1):
        if not re.match(rf"{field}-\d", line):
            continue
        match = re.fullmatch(rf"{field}-(\d{{1,{MAX_DIGITS}}})\t{score}(.*)\n?", line)
        if match is None:
            fields = "INDEX, a score and tokens" if field == "H" else "INDEX and tokens"
            raise DataError(
                f"{name}:{number} is not a complete line of fairseq-generate output. "
                f"Expected {field}-{fields}, separated by tabs."
            )
        yield f"{name}:{number}", int(match[1]), match[2], match[3]


def read_generated_lines(lines: Iterable[str], field: str, name: str = "the text") -> Iterator[str]:
    """Return the first text with the prefix `field` for each sentence, in data set order.

    The arguments are those of `parse_generated_lines`. Raise DataError if a sentence is missing.
    """
    texts: dict[int, str] = {}
    for _, index, _, text in parse_generated_lines(lines, field, name):
        texts.setdefault(index, text)
    if not texts:
        raise DataError(
            f"There is no {field}-0 line in {name}. Expected the complete output "
            "of fairseq-generate."
        )
    missing = next((index for index in range(len(texts)) if index not in texts), None)
    if missing is not None:
        raise DataError(
            f"There is no {field}-{missing} line in {name}. Expected the complete "
            "output of fairseq-generate."
        )
    return iter([texts[index] for index in sorted(texts)])


UNKNOWN_WORD = "<unk>"


@dataclass
class UnknownCopies:
    """Function that replaces each ``<unk>`` with a token copied from the source.

    Candidates are the source tokens that are missing from one or both vocabularies. The model
    cannot copy these tokens itself. The n-th ``<unk>`` is replaced with the n-th candidate. If
    there are fewer candidates, the remaining ``<unk>`` tokens are unchanged.
    """

    source_words: Set[str]
    target_words: Set[str]
    copied: int = field(default=0, init=False)
    """Number of replaced ``<unk>`` tokens."""
    left: int = field(default=0, init=False)
    """Number of ``<unk>`` tokens without a candidate."""

    def lines(
        self, outputs: Iterable[str], sources: Iterable[str], names: tuple[str, str]
    ) -> Iterator[str]:
        """Yield each output line with ``<unk>`` replaced. `names` are file names for messages."""
        for number, pair in enumerate(zip_longest(outputs, sources)):
            if None in pair:
                ended, longer = names if pair[0] is None else reversed(names)
                raise unequal_lines(ended, number, longer)
            yield self(*pair)

    def __call__(self, output: str, source: str) -> str:
        """Replace each ``<unk>`` in an output line with a candidate from its source line."""
        if UNKNOWN_WORD not in output:
            return output
        candidates = filter(self._is_candidate, source.split())
        tokens = output.split(" ")
        for index, token in enumerate(tokens):
            if token == UNKNOWN_WORD:
                tokens[index] = next(candidates, UNKNOWN_WORD)
                self.copied += tokens[index] != UNKNOWN_WORD
                self.left += tokens[index] == UNKNOWN_WORD
        return " ".join(tokens)

    def _is_candidate(self, token: str) -> bool:
        return not (token in self.source_words and token in self.target_words)


JAPANESE = "々〆\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f」』\uff09〉》】"
"""Kana, kanji and Japanese closing brackets, for a regular expression character class."""
DIGIT = "0-9\uff10-\uff19"
LATIN_WORD = rf"{DIGIT}A-Za-z\uff21-\uff3a\uff41-\uff5a"
WIDE_COMMA, WIDE_STOP = "\uff0c", "\uff0e"
STOPS = f".{WIDE_STOP}"
OUTSIDE_NUMBER = rf"(?:(?<![{DIGIT}]){{0}}|{{0}}(?![{DIGIT}]))"
SPACES = r"(?<! ) *"
"""Pattern for spaces before a mark. The lookbehind avoids quadratic time on long runs of spaces."""

PUNCTUATION = [
    (re.compile(pattern), mark)
    for pattern, mark in (
        (rf"{SPACES}{OUTSIDE_NUMBER.format(WIDE_COMMA)} *", "、"),
        (rf"{SPACES}(?<![{STOPS}]){OUTSIDE_NUMBER.format(WIDE_STOP)}(?![{STOPS}]) *", "。"),
        (rf"{SPACES},(?: +|$)", "、"),
        (rf"{SPACES}(?<![{STOPS}])\.(?: +|$)", "。"),
        (rf"(?<=[{JAPANESE}]),|,(?=[{JAPANESE}])", "、"),
        (rf"(?<=[{JAPANESE}])\.(?![{STOPS}{LATIN_WORD}])", "。"),
    )
]
"""Pairs of a pattern and its replacement, applied in this order."""

KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f"
LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\uff21-\uff3a\uff41-\uff5a"
SIMPLE = r" .,'&\-\u2010-\u2013\u2019\u3000・"
OPEN, CLOSE = r"[(\uff08]", r"[)\uff09]"
BRACKETS = re.compile(rf"(?<=[{KATAKANA}]) *{OPEN}[{SIMPLE}]*[{LATIN}][{LATIN}{SIMPLE}]*{CLOSE}")


def fix_japanese_punctuation(line: str) -> str:
    """Replace commas and full stops with 、 and 。.

    Full-width marks (U+FF0C, U+FF0E) are replaced except within numbers. ASCII marks are replaced
    before a space and at the end of the line. Spaces around these marks are removed. ASCII commas
    are also replaced next to a Japanese character. ASCII full stops are also replaced after a
    Japanese character, unless a Latin letter or a digit follows. Consecutive dots are kept.
    """
    for pattern, mark in PUNCTUATION:
        line = pattern.sub(mark, line)
    return line


def remove_latin_brackets(line: str) -> str:
    """Remove bracketed Latin text after katakana, such as the original spelling of a name.

    Brackets that also contain digits or other symbols are kept.
    """
    return BRACKETS.sub("", line)


EXTRA_MARKER = re.compile(rf"(?<!\S){MARKER} (?={MARKER})")
"""Pattern for a separate ▁ before another ▁. The separate ▁ would become an extra space."""


def drop_token(line: str, token: str) -> str:
    """Remove a token and repeated spaces from a line of tokens.

    sentencepiece writes a tag within a line as ``▁ <sep> ▁the``. The separate ▁ is also removed.
    """
    text = " ".join(word for word in line.split(" ") if word not in ("", token))
    return EXTRA_MARKER.sub("", text)


@dataclass(frozen=True)
class Postprocessing:
    """Postprocessing steps, in the order in which they are applied."""

    fairseq_lines: str | None = option(
        None,
        "extract sources (S), targets (T) or best hypotheses (H) from fairseq-generate output, in "
        "the order of the data set",
        choices=("S", "T", "H"),
    )
    copy_unknown: bool = option(
        False,
        "replace the n-th <unk> with the n-th source token that is missing from the source or "
        "target dictionary; all other <unk> are kept, and their number is reported on stderr",
    )
    drop: str | None = option(
        None, "token to remove, such as the <sep> of joined sentences", metavar="TOKEN"
    )
    subwords: str = subwords_option("none")
    replace_unk: str | None = option(
        None,
        "text that replaces each remaining <unk>; Kiyono (2022) uses a vertical bar for Ja-En",
        metavar="TEXT",
    )
    detruecase: bool = option(
        False, "capitalize the first word of each sentence, as in Moses' detruecaser"
    )
    moses: str | None = moses_option()
    japanese_punctuation: bool = option(
        False,
        "replace English and full-width commas and full stops with 、 and 。, except within "
        "numbers and Latin words",
    )
    remove_brackets: bool = option(
        False,
        "remove brackets after katakana together with their content, if the content is only Latin "
        "letters, spaces and simple punctuation; the shorter output can lower BLEU (Kiyono, 2022, "
        "section 5.5.4)",
    )

    def __post_init__(self) -> None:
        check(self)


def postprocessor(config: Postprocessing) -> LineRewriter:
    """Return a function that applies to a line all steps that come after `copy_unknown`."""
    steps: list[LineRewriter] = []
    if config.drop is not None:
        steps.append(partial(drop_token, token=config.drop))
    steps.append(subword_joiner(config.subwords))
    if (text := config.replace_unk) is not None:
        steps.append(lambda line: line.replace(UNKNOWN_WORD, text))
    if config.detruecase:
        steps.append(detruecaser())
    if config.moses:
        steps.append(moses_detokenizer("none", config.moses))
    if config.japanese_punctuation:
        steps.append(fix_japanese_punctuation)
    if config.remove_brackets:
        steps.append(remove_latin_brackets)

    def process(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return process
