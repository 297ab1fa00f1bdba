"""Convert official archives to the text that PoDA reads at the paper scale.

    archives.py lang8 FILE -o PREFIX                     pairs with edits of Lang-8, any release
    archives.py join PREFIX... -o PREFIX                 pairs of several corpora
    archives.py headlines ARTICLES TITLES -o PREFIX      pairs of Gigaword
    archives.py stories FOLDER... --urls LIST -o PREFIX  pairs of CNN and Daily Mail
    archives.py tagged ARTICLES SUMMARIES -o PREFIX      the same, from summaries of <t> sentences
    archives.py paragraphs FOLDER                        print paragraphs of Wikipedia
    archives.py sentences FILE... --max-words N          the same of the Billion Word Benchmark

Pairs are written to PREFIX.src and PREFIX.trg. All text is read and written line by line. Section
numbers refer to the paper; steps without one are not in the paper.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha1
from itertools import chain, islice
from pathlib import Path

from fairseq_ssl.errors import DataError, FairseqSslError, import_optional
from fairseq_ssl.io.blocks import read_parallel
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.text_files import parse_json, read_lines, write_parallel
from fairseq_ssl.text.m2 import EditApplier, read_m2
from fairseq_ssl.text.tokenization import LineRewriter, moses_tokenizer

Pair = tuple[str, str]

ENTRY_COLUMNS = 5
"""Columns of a sentence in entries.train before its corrections."""
LANG8_TAGS = re.compile(r"\[sline\].*?\[/sline\]|\[/?(?:f-\w+|sline)\]")
"""Deleted words and marks of color in the corrections of the Lang-8 Learner Corpora."""
CONTROL = re.compile(r"[\x00-\x1f]")
SENTENCE_ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")
"""Ends of a line to which See et al. (2017) do not add a period."""
UNTOKENIZED = re.compile(r"\w,(?!\S)")
"""A comma that is not a token of its own."""
CONTRACTION = re.compile(r"(?<=\w)(n) ('t)(?!\S)", re.IGNORECASE)
"""A contraction that Moses splits as don 't, not as do n't."""
BATCH = 1000
"""Number of lines that a process tokenizes at a time."""
SAMPLE = 20
"""Number of stories that are checked for untokenized text."""


def lang8(path: Path) -> Iterator[Pair]:
    """Yield the pairs of Lang-8 whose sides differ, one for each correction (section 3.3).

    The suffix of the file shows its release: .m2, .dat or .train. The M2 file is tokenized.
    """
    if path.suffix == ".m2":
        rows = _m2_rows(path)
    else:
        tokenize = _nltk_tokenizer()
        raw_rows = _journal_rows(path) if path.suffix == ".dat" else _entry_rows(path)
        rows = (list(map(tokenize, row)) for row in raw_rows)
    for source, *corrections in rows:
        for correction in corrections:
            if source and correction and correction != source:
                yield source, correction


def _m2_rows(path: Path) -> Iterator[list[str]]:
    """Yield sentences of the BEA-2019 release with the corrections of all annotators."""
    appliers: dict[int, EditApplier] = {}
    for sentence in read_m2(path):
        row = [" ".join(sentence.words)]
        for annotator in sentence.annotators:
            if annotator not in appliers:
                appliers[annotator] = EditApplier(str(path), annotator, drop_overlaps=True)
            row.append(appliers[annotator](sentence))
        yield row


def _entry_rows(path: Path) -> Iterator[list[str]]:
    """Yield sentences of entries.train of the Lang-8 Corpus of Learner English."""
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if not line.strip():
            continue
        if len(columns) < ENTRY_COLUMNS or not columns[0].isdecimal():
            raise DataError(
                f"{path}:{number} is not a sentence of the Lang-8 Corpus of Learner English. "
                "Expected the columns number of corrections, serial number, URL, number of the "
                "sentence, sentence and corrections, separated by tabs."
            )
        yield columns[ENTRY_COLUMNS - 1 :]


def _journal_rows(path: Path) -> Iterator[list[str]]:
    """Yield English sentences of the Lang-8 Learner Corpora, which have a journal per line.

    The published file has some malformed lines, which are skipped.
    """
    journals, skipped = 0, 0
    for line in read_lines(path):
        try:
            _, _, language, _, sentences, corrections = parse_json(CONTROL.sub(" ", line))
            rows = [
                [LANG8_TAGS.sub("", text) for text in (sentence, *corrected)]
                for sentence, corrected in zip(sentences, corrections, strict=True)
            ]
        except (TypeError, ValueError):
            skipped += 1
            continue
        journals += 1
        if language == "English":
            yield from rows
    if not journals:
        raise DataError(
            f"{path} has no journal of the Lang-8 Learner Corpora. Expected on each line a JSON "
            "list of two ids, two languages, the sentences and their corrections."
        )
    print(f"{path}: {journals:,} journals, {skipped:,} malformed lines skipped", file=sys.stderr)


def _nltk_tokenizer() -> LineRewriter:
    """Return NLTK's word tokenizer (section 3.3), with quotes as in the gold M2 files."""
    nltk = import_optional("nltk.tokenize", "Tokenizing Lang-8")

    def tokenize(line: str) -> str:
        words = nltk.word_tokenize(line, preserve_line=True)
        return " ".join('"' if word in ("``", "''") else word for word in words)

    return tokenize


def join(prefixes: Sequence[Path]) -> Iterator[Pair]:
    """Yield the pairs of several corpora, except those with an empty side."""
    for prefix in prefixes:
        for source, target in read_parallel(_sides(prefix)):
            if source.strip() and target.strip():
                yield source, target


def headlines(articles: Path, titles: Path) -> Iterator[Pair]:
    """Yield the pairs of Gigaword, which is tokenized and lowercased (section 3.2).

    Rare words are <unk> in the training pairs and UNK in the test pairs. <unk> is a special symbol
    of fairseq, so all become UNK.
    """
    for article, title in read_parallel([articles, titles]):
        yield _with_unknown(article), _with_unknown(title)


def _with_unknown(line: str) -> str:
    return " ".join("UNK" if word == "<unk>" else word for word in line.split())


def stories(folders: Sequence[Path], urls: Path, mark: str) -> Iterator[Pair]:
    """Yield articles and summaries as the script of See et al. (2017) does (section 3.2).

    The text is lowercased, lines get a final period, and articles without text are dropped. `mark`
    separates the sentences of a summary.

    Args:
        folders: folders of tokenized stories, whose names are SHA-1 hashes of URLs
        urls: URLs of the stories of the split, one per line
        mark: sentence mark
    """
    pairs = (_split_story(path, mark) for path in _story_paths(folders, urls))
    first = list(islice(pairs, SAMPLE))
    if sum(bool(UNTOKENIZED.search(article)) for article, _ in first) > len(first) / 2:
        raise DataError(
            f"The stories in {' and '.join(map(str, folders))} are not tokenized. Expected the "
            "output of Stanford's PTBTokenizer."
        )
    for article, summary in chain(first, pairs):
        if article and summary:
            yield article, summary


def _story_paths(folders: Sequence[Path], urls: Path) -> Iterator[Path]:
    for number, line in enumerate(read_lines(urls), 1):
        if url := line.strip():
            name = f"{sha1(url.encode()).hexdigest()}.story"
            paths = [path for folder in folders if (path := folder / name).exists()]
            if not paths:
                raise DataError(
                    f"{urls}:{number}: the story of {url}, {name}, is not in "
                    f"{' or '.join(map(str, folders))}. Expected all stories of the list."
                )
            yield paths[0]


def _split_story(path: Path, mark: str) -> Pair:
    article: list[str] = []
    highlights: list[str] = []
    part = article
    for line in read_lines(path):
        text = " ".join(line.split()).lower()
        if text.startswith("@highlight"):
            part = highlights
        elif text:
            part.append(text if text.endswith(SENTENCE_ENDS) else f"{text} .")
    return " ".join(article), f" {mark} ".join(highlights)


def tagged(articles: Path, summaries: Path, mark: str) -> Iterator[Pair]:
    """Yield articles and summaries of the pairs that are published with OpenNMT.

    Their text is the output of the script of See et al. Pairs with an empty side are dropped.
    """
    for number, (article, summary) in enumerate(read_parallel([articles, summaries]), 1):
        sentences = [text.strip() for text in re.findall("<t>(.*?)</t>", summary)]
        if summary.strip() and not sentences:
            raise DataError(f"{summaries}:{number} has no sentence between <t> and </t>.")
        if article.strip() and sentences:
            yield " ".join(article.split()), f" {mark} ".join(sentences)


def paragraphs(folder: Path) -> Iterator[str]:
    """Yield the paragraphs of the articles in the output of WikiExtractor, without titles."""
    paths = sorted(folder.glob("*/wiki_[0-9][0-9]"))
    if not paths:
        raise DataError(
            f"{folder} has no file such as AA/wiki_00. Expected the output of WikiExtractor "
            "without --compress."
        )
    for path in paths:
        yield from _wiki_paragraphs(path)


def _wiki_paragraphs(path: Path) -> Iterator[str]:
    is_article, title = False, ""
    for number, line in enumerate(read_lines(path), 1):
        text = html.unescape(" ".join(line.split()))
        if line.startswith("<doc "):
            is_article, title = True, text.partition(' title="')[2].removesuffix('">')
        elif line.startswith("</doc>"):
            is_article = False
        elif text and not is_article:
            raise DataError(
                f"{path}:{number} is not in an article <doc ...>. Expected the output of "
                "WikiExtractor without --json."
            )
        elif text:
            if text != title:
                yield text
            title = ""  # only the first line of an article is the title


def sentences(paths: Sequence[Path], max_words: int) -> Iterator[str]:
    """Yield tokenized sentences of at most `max_words` words (section 2.3)."""
    for path in paths:
        for line in read_lines(path):
            if len(line.split()) <= max_words:
                yield split_contractions(line)


def split_contractions(line: str) -> str:
    """Split contractions as in the Penn Treebank.

    The pairs of all tasks have n't, and the vocabulary is counted in the text for pre-training.
    """
    return CONTRACTION.sub(r" \1\2", line)


def tokenized(lines: Iterable[str], jobs: int) -> Iterator[str]:
    """Tokenize lines with `jobs` processes."""
    iterator = iter(lines)
    batches = iter(lambda: list(islice(iterator, BATCH)), [])
    return chain.from_iterable(LocalExecutor(jobs).imap(_tokenize_batch, batches))


def _tokenize_batch(lines: list[str]) -> list[str]:
    return list(map(_tokenizer(), lines))


@cache
def _tokenizer() -> LineRewriter:
    """Return the tokenizer of the Billion Word Benchmark, with other contractions."""
    moses = moses_tokenizer("en", escape=False, normalize=True)
    return lambda line: split_contractions(moses(line))


def _sides(prefix: Path) -> list[Path]:
    return [prefix.with_name(f"{prefix.name}.{side}") for side in ("src", "trg")]


def _print(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


COMMANDS: dict[str, tuple[int | str, Callable[[argparse.Namespace], Iterator[Pair]]]] = {
    "lang8": (1, lambda args: lang8(*args.inputs)),
    "join": ("+", lambda args: join(args.inputs)),
    "headlines": (2, lambda args: headlines(*args.inputs)),
    "stories": ("+", lambda args: stories(args.inputs, args.urls, args.sentence_mark)),
    "tagged": (2, lambda args: tagged(args.inputs[0], args.inputs[1], args.sentence_mark)),
}
"""Commands that write pairs: number of inputs, and function of the arguments."""


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (inputs, _) in COMMANDS.items():
        command = commands.add_parser(name)
        command.add_argument("inputs", type=Path, nargs=inputs)
        command.add_argument("-o", "--output", type=Path, required=True, metavar="PREFIX")
        if name in ("stories", "tagged"):
            command.add_argument("--sentence-mark", default="<q>", metavar="WORD")
        if name == "stories":
            command.add_argument("--urls", type=Path, required=True, metavar="LIST")
    command = commands.add_parser("paragraphs")
    command.add_argument("folder", type=Path)
    command.add_argument("--jobs", type=int, default=1)
    command = commands.add_parser("sentences")
    command.add_argument("files", type=Path, nargs="+")
    command.add_argument("--max-words", type=int, required=True, metavar="N")
    args = parser.parse_args()
    try:
        if args.command == "paragraphs":
            _print(tokenized(paragraphs(args.folder), args.jobs))
        elif args.command == "sentences":
            _print(sentences(args.files, args.max_words))
        else:
            _, read_pairs = COMMANDS[args.command]
            count = write_parallel(_sides(args.output), read_pairs(args))
            print(f"{args.output}: {count:,} pairs")
    except FairseqSslError as error:
        sys.exit(f"archives.py: {error}")


if __name__ == "__main__":
    main()
