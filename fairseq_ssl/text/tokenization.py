"""Tokenize, detokenize and truecase text with Moses, and join subwords."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError, check_choice, import_optional
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.outputs import atomic_lines
from fairseq_ssl.io.text_files import optional_path, read_lines
from fairseq_ssl.io.text_jobs import LineSummary, Output, rewrite_file
from fairseq_ssl.options import check, option
from fairseq_ssl.signature import Signature

LineRewriter = Callable[[str], str]
"""Function that maps a line to a line."""


class BuiltRewriter:
    """Line rewriter that can be pickled for worker processes. Unpickling calls the factory again.

    Args:
        rewrite: function that rewrites a line
        build: factory that returns the rewriter
        options: arguments of the factory
    """

    def __init__(self, rewrite: LineRewriter, build: Callable[..., Any], *options: Any) -> None:
        self._rewrite, self._build, self._options = rewrite, build, options

    def __call__(self, line: str) -> str:
        """Rewrite a string. Raise TypeError for other types, which sacremoses would accept."""
        if not isinstance(line, str):
            raise TypeError(f"The line is {line!r}. Expected a string.")
        return self._rewrite(line)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._build, self._options


def moses_tokenizer(
    language: str, dashes: bool = False, escape: bool = True, normalize: bool = False
) -> LineRewriter:
    """Return a function that tokenizes a line as the Moses tokenizer does.

    Args:
        language: language code. It selects the rules for abbreviations and apostrophes.
        dashes: split at hyphens, so that ``well-known`` becomes ``well @-@ known``.
        escape: escape special characters of the Moses decoder, so that ``|`` becomes ``&#124;``.
        normalize: normalize quotes, dashes and spaces first.
    """
    _check_language(language)
    moses = import_optional("sacremoses", "Moses' tokenization")
    tokenize = _cache_letters(moses.MosesTokenizer(lang=language)).tokenize

    normalize_line = moses.MosesPunctNormalizer(lang=language).normalize if normalize else str

    def tokens(line: str) -> str:
        line = normalize_line(line)
        return str(tokenize(line, aggressive_dash_splits=dashes, return_str=True, escape=escape))

    return BuiltRewriter(tokens, moses_tokenizer, language, dashes, escape, normalize)


def _check_language(language: str) -> None:
    """Raise UsageError if a language code is malformed, such as a language name or a locale.

    sacremoses accepts such a value, but uses English abbreviations and no apostrophe rules.
    """
    if not re.fullmatch("[a-z]{2,3}", language):
        raise UsageError(
            f"The Moses language is {language!r}. Expected a code of two or three lowercase "
            "letters, such as en."
        )


def _cache_letters(tokenizer: Any) -> Any:
    """Patch a sacremoses tokenizer to build its letter sets once instead of for each token."""
    lower, letters = frozenset(tokenizer.IsLower), frozenset(tokenizer.IsAlpha)
    tokenizer.islower = lower.issuperset
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    return tokenizer


MARKER = "\u2581"
"""Character with which sentencepiece marks the beginning of a word."""
SUBWORDS: dict[str, LineRewriter] = {
    "none": lambda line: line,
    "sentencepiece": lambda line: line.replace(" ", "").replace(MARKER, " ").strip(),
    "subword-nmt": lambda line: f"{line} ".replace("@@ ", "").rstrip(),
}
"""Functions that join the subwords in a line, by subword scheme."""


def subword_joiner(subwords: str | None) -> LineRewriter:
    """Return a function that joins the subwords in a line.

    If `subwords` is None or ``subword-nmt``, the function checks the first line with a space or a
    sentencepiece marker. It raises DataError if this line was segmented with a different scheme.

    Args:
        subwords: subword scheme, a key of `SUBWORDS`; None stands for sentencepiece
    """
    if subwords is not None:
        check_choice("subwords", subwords, SUBWORDS)
    join = SUBWORDS[subwords or "sentencepiece"]
    if subwords in ("none", "sentencepiece"):
        return join
    is_checked = False

    def checked_join(line: str) -> str:
        nonlocal is_checked
        if not is_checked and (" " in line or MARKER in line):
            if subwords is None and MARKER not in line:
                raise DataError(
                    f"{line[:40]!r} contains no {MARKER}, so the text was not segmented with "
                    "sentencepiece, the default. Set `subwords` to none or subword-nmt."
                )
            if subwords is not None and line.startswith(MARKER):
                raise DataError(
                    f"{line[:40]!r} begins with {MARKER}, so the text was segmented with "
                    "sentencepiece. Set `subwords` to sentencepiece."
                )
            is_checked = True
        return join(line)

    return checked_join


def subwords_option(default: str | None) -> Any:
    """Declare an option for the subword scheme of `subword_joiner`."""
    return option(
        default,
        "subword scheme of the text; subwords are joined into words",
        choices=tuple(SUBWORDS),
        usual=default or "sentencepiece; other text is rejected",
    )


def moses_option() -> Any:
    """Declare an option for the language of `moses_detokenizer`."""
    return option(None, "language of the Moses detokenizer, such as de", metavar="LANG")


@dataclass(frozen=True)
class Detokenization:
    """Options of `moses_detokenizer`."""

    subwords: str | None = subwords_option(None)
    moses: str | None = moses_option()

    def __post_init__(self) -> None:
        check(self)


def moses_detokenizer(subwords: str | None, moses: str | None = None) -> LineRewriter:
    """Return a function that joins the subwords in a line and then detokenizes it.

    Args:
        subwords: subword scheme, see `subword_joiner`.
        moses: language of the Moses detokenizer (default: do not detokenize).
    """
    join = subword_joiner(subwords)
    if moses is None:
        return BuiltRewriter(join, moses_detokenizer, subwords)
    _check_language(moses)
    detokenize = _detokenizer(moses)
    return BuiltRewriter(lambda line: detokenize(join(line)), moses_detokenizer, subwords, moses)


NO_BREAK_SPACES = {0xA0: "\ufdd0", 0x2007: "\ufdd1", 0x202F: "\ufdd2"}
"""No-break spaces, and the noncharacters that replace them in the input of sacremoses."""
SPACES_OF_MARKS = str.maketrans({mark: chr(space) for space, mark in NO_BREAK_SPACES.items()})
"""Inverse of `NO_BREAK_SPACES`, for `str.translate`."""
CZECH_JOINS = (
    (re.compile(r"(?<!\S)(\d+) ([.,]) (?=\d+(?!\S))", re.ASCII), r"\1\2"),
    (re.compile(r"(?<!\S)(\S*[^\W\d_]) ([-\u2013]) (?=(?:li|mail\S*) )", re.IGNORECASE), r"\1\2"),
)
"""Patterns and replacements that join Czech tokens such as ``3 , 5``, ``je - li``, ``e - mail``."""
LAST = "\ufdd3"
"""Word appended to a Czech line, so that the line does not end with a number and a mark."""


def _detokenizer(language: str) -> LineRewriter:
    """Return sacremoses' detokenizer, with no-break spaces and Czech treated as in Moses.

    sacremoses splits words at no-break spaces. For Czech, it searches the last two words of the
    line, instead of the two previous words, for a number and a mark. If it finds them, it joins
    every number after the second word to the word before it.
    """
    package = import_optional("sacremoses", "Moses detokenization")
    moses = package.MosesDetokenizer(lang=language)
    if language == "cs":
        moses.IS_FRENCH_CONRTACTION = re.compile("(?!)")  # its rule for -li raises TypeError

    def detokenize(line: str) -> str:
        words = line.translate(NO_BREAK_SPACES).split()
        if language != "cs":
            return str(moses.detokenize(words)).translate(SPACES_OF_MARKS)
        line = " ".join(words)
        for pattern, joined in CZECH_JOINS:
            line = pattern.sub(joined, line)
        text = str(moses.detokenize([*line.split(), LAST]))
        return text.removesuffix(LAST).rstrip().translate(SPACES_OF_MARKS)

    return detokenize


COUNT = re.compile(r"\([\d.e+-]+(/[\d.e+-]+)?\)")

MARKUP = re.compile(r"<\S[^>]*>")
ENDS = frozenset(".:?!")
"""Punctuation marks after which Moses expects the first word of a sentence."""


def train_truecaser(
    lines: Iterable[str], model: str | Path, name: str = "the text"
) -> tuple[int, int]:
    """Train a Moses truecasing model: counts of each word's cased forms, except at sentence starts.

    Return the number of lines and the number of words in the model. Memory use grows with the
    vocabulary, whereas sacremoses keeps all tokens of the text in memory during training.

    Args:
        lines: tokenized text, one sentence per line.
        model: output file, in Moses truecaser format.
        name: name of the text in messages.
    """
    moses = _sacremoses().MosesTruecaser()
    counts: Counter[str] = Counter()
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007
        words = _without_sentence_marks(line, moses.DELAYED_SENT_START)
        counts.update([token for _, token, _ in moses.learn_truecase_weights(words)])
    if not counts:
        raise DataError(
            f"No line of {name} contains upper- or lowercase letters after the first word of a "
            "sentence. Expected tokenized text, one sentence per line."
        )
    forms_of: dict[str, list[tuple[str, int]]] = {}
    for token, count in counts.items():
        forms_of.setdefault(token.lower(), []).append((token, count))
    with atomic_lines(model) as file:
        for forms in forms_of.values():
            forms.sort(key=lambda form: -form[1])  # stable: ties keep the text order
            (best, best_count), *others = forms
            total = sum(count for _, count in forms)
            words = [f"{best} ({best_count}/{total})", *(f"{word} ({n})" for word, n in others)]
            file.write(f"{' '.join(words)}\n")
    return number, len(forms_of)


def _without_sentence_marks(line: str, skipped: Container[str]) -> list[str]:
    """Split a line. Omit markup, `skipped` words and punctuation marks that begin a sentence.

    sacremoses would treat such a mark as the first word of the sentence.
    """
    words = [w for w in _split_markup(line) if w not in skipped and not MARKUP.fullmatch(w)]
    pairs = zip(words, [".", *words], strict=False)
    return [word for word, before in pairs if not (word in ENDS and before in ENDS)]


def truecaser(model: str | Path) -> LineRewriter:
    """Return a function that truecases a line.

    The first word of a sentence is replaced with its most frequent form. Other words are replaced
    only if the model does not contain their form, as in Moses. In sacremoses, this is the option
    `use_known`, which is off by default.
    """
    moses_truecaser = _sacremoses().MosesTruecaser()
    moses_truecaser.model = _read_case_counts(model)
    moses_truecaser.split_xml = _split_markup

    def truecase(line: str) -> str:
        line = line.translate(NO_BREAK_SPACES)
        text = moses_truecaser.truecase(line, return_str=True, use_known=True)
        return str(text).translate(SPACES_OF_MARKS)

    return BuiltRewriter(truecase, truecaser, model)


@dataclass(frozen=True)
class MosesRules:
    """Language and options of the Moses tokenizer. Without a language, text is not tokenized."""

    moses: str | None = option(
        None,
        "language of the Moses tokenizer, such as de; languages without a list of abbreviations "
        "use the English list",
        metavar="LANG",
    )
    aggressive_dash_splits: bool = option(
        False, "split at dashes within words: well-known becomes well @-@ known"
    )
    no_escape: bool = option(False, "do not escape & | < > ' \" [ ] as &amp; &#124; ...")
    normalize: bool = option(
        False, "normalize quotes, dashes and spaces with Moses' normalizer before tokenization"
    )

    def __post_init__(self) -> None:
        for name in ("aggressive_dash_splits", "no_escape", "normalize"):
            if getattr(self, name) and not self.moses:
                raise UsageError(
                    f"`{name}` needs `moses`. Set `moses` to the language of the text."
                )

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of `moses_tokenizer` in order, or {} if there is no language."""
        if not self.moses:
            return {}
        return {
            "moses": self.moses,
            "dashes": self.aggressive_dash_splits,
            "escape": not self.no_escape,
            "normalize": self.normalize,
        }


def preprocessor(rules: MosesRules, truecase: str | Path | None = None) -> LineRewriter:
    """Return a function that tokenizes and truecases a line. Steps without settings are skipped."""
    tokenize = moses_tokenizer(*rules.parameters().values()) if rules.moses else str
    if truecase is None:
        return tokenize
    cased = truecaser(truecase)
    return BuiltRewriter(lambda line: cased(tokenize(line)), preprocessor, rules, truecase)


def tokenize_file(
    source: str | Path | None,
    output: Output,
    rules: MosesRules | None = None,
    *,
    truecase: str | Path | None = None,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> LineSummary | None:
    """Tokenize or truecase a text, or both. Return None if this run does not complete the output.

    The output does not depend on the executor, parts or shards. Interrupted runs resume.

    Args:
        source: text; None for stdin
        output: a file, a folder of parts, or a binary stream
        rules: language and options of the Moses tokenizer (default: do not tokenize)
        truecase: truecasing model, an output of `train_truecaser` (default: do not truecase)
        executor: executor that processes the blocks or parts (default: the current process)
        overwrite: replace an existing output
        progress: creates the progress report, which receives the number of processed lines
    """
    rules, model = rules or MosesRules(), optional_path(truecase)
    parameters, files = rules.parameters(), {}
    if model is not None:
        parameters["truecase_digest"], files["truecase"] = content_digest(model), str(model)
    return rewrite_file(
        source,
        output,
        partial(preprocessor, rules, model),
        Signature("tokenize", parameters, files),
        reads=[model] if model else [],
        executor=executor,
        overwrite=overwrite,
        progress=progress,
    )


def detruecaser() -> LineRewriter:
    """Return a function that capitalizes the first word of each sentence."""
    moses_detruecaser = _sacremoses().MosesDetruecaser()

    def detruecase(line: str) -> str:
        text = moses_detruecaser.detruecase(line.translate(NO_BREAK_SPACES), return_str=True)
        return str(text).translate(SPACES_OF_MARKS)

    return BuiltRewriter(detruecase, detruecaser)


def _split_markup(line: str) -> list[str]:
    """Split a line into words and XML tags, also at ``<`` and ``>`` within words, as in Moses.

    A line without ``<`` and ``>`` is split at spaces, since `split_xml` takes quadratic time.
    """
    if "<" not in line and ">" not in line:
        return line.split()
    return list(_sacremoses().MosesTruecaser.split_xml(line))


def _sacremoses() -> Any:
    return import_optional("sacremoses", "Truecasing")


def _read_case_counts(path: str | Path) -> dict[str, Any]:
    """Read a truecasing model into the structure that sacremoses' `MosesTruecaser` uses.

    The result contains the most frequent form of each word (`best`) and the other forms (`known`).
    """
    best: dict[str, str] = {}
    known: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split()
        words, counts = fields[::2], fields[1::2]
        if not words or len(words) != len(counts) or not all(map(COUNT.fullmatch, counts)):
            raise DataError(
                f"{path}:{number} is {line[:80]!r}. Expected words and their counts, such as "
                "'the (70/75) The (5)'. Is this a Moses truecasing model?"
            )
        best[words[0].lower()] = words[0]
        known.update(words[1:])
    if not best:
        raise DataError(f"{path} is empty. Expected a truecasing model. Train the model again.")
    return {"best": best, "known": known}


def match_case(word: str, other: str) -> str:
    """Return `other` in upper case or capitalized if `word` is. Otherwise, return it unchanged."""
    if len(word) > 1 and word.isupper():
        return other.upper()
    return other[0].upper() + other[1:] if word[0].isupper() else other
