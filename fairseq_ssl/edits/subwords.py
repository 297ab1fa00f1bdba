"""Tokenization of words into subwords for pretrained encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairseq_ssl.errors import DataError, import_optional, library_errors
from fairseq_ssl.text.spans import Ids, Spans

PROBE = "the"
"""A word used to test how a tokenizer treats the start of a text."""
START = "$START"
"""GECToR's symbol for the start of a sentence, which follows the encoder's start symbol."""


class SubwordBatch(NamedTuple):
    """Sentences as subwords, padded on the right, with the subword positions of their words.

    The fields are NumPy arrays, or tensors in a minibatch for a model.
    """

    ids: Any
    """Subword ids with the encoder's start and end symbols, [batch, time]."""
    first: Any
    """Index in each row of `ids` of the first subword of <s> and of each word, [batch, words]."""
    counts: Any
    """Number of subwords of <s> and of each word, 0 for padding, [batch, words]."""


class WordTokenizer:
    """Fast Hugging Face tokenizer of a pretrained encoder, applied to one word at a time.

    Words are tokenized as if they followed a space within a sentence.
    """

    def __init__(self, text: str) -> None:
        """Build a tokenizer from the content of tokenizer.json."""
        self.text = text
        tokenizers = import_optional("tokenizers", "An encoder for words", "correct")
        with library_errors("The tokenizer cannot be read"):
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            self._space = self._space_before_words()
            self.start, self.end = self._start_and_end()
            self.start_index = self._start_index()
            self.unknown = self._unknown()

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.text}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["text"])  # type: ignore[misc]

    @property
    def size(self) -> int:
        """Vocabulary size, which is the largest id plus 1."""
        ids = self._tokenizer.get_vocab(with_added_tokens=True).values()
        size: int = 1 + max(*ids, *self.start, *self.end)
        return size

    @property
    def padding(self) -> int:
        """Id of the padding symbol, or of the unknown subword if there is no padding symbol."""
        ids = (self._id(symbol) for symbol in ("[PAD]", "<pad>"))
        return next((number for number in ids if number is not None), self.unknown)

    def subwords(self) -> dict[str, int]:
        """Return the id of each subword."""
        return dict(self._tokenizer.get_vocab(with_added_tokens=True))

    def symbols(self, size: int) -> list[str]:
        """Return the subwords of ids below `size`. Missing ids get names such as madeupword0007."""
        names = map(self._tokenizer.id_to_token, range(size))
        return [name or f"madeupword{row:04d}" for row, name in enumerate(names)]

    def encode(self, word: str, longest: int) -> list[int]:
        """Return up to `longest` subword ids of a word, or the unknown subword if it has none.

        Raises:
            DataError: if the tokenizer fails for this word.
        """
        with library_errors(f"The tokenizer of the encoder cannot tokenize {word[:40]!r}"):
            return self._ids(f"{self._space}{word}")[:longest] or [self.unknown]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _space_before_words(self) -> str:
        """Return the prefix, " " or "", that makes the tokenizer treat a word as mid-sentence."""
        within = self._ids(f"{PROBE} {PROBE}")
        return " " if self._ids(PROBE) * 2 != within and within[1:] else ""

    def _start_and_end(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids of the symbols that the tokenizer adds before and after a text."""
        encoded = self._tokenizer.encode(PROBE, add_special_tokens=True)
        text = [n for n, is_special in enumerate(encoded.special_tokens_mask) if not is_special]
        start, end = tuple(encoded.ids[: text[0]]), tuple(encoded.ids[text[-1] + 1 :])
        if not (start or end):
            raise DataError(
                "The tokenizer adds no symbol before or after a sentence. Insertions at the start "
                "of a sentence need such a symbol. Choose an encoder such as BERT."
            )
        return start, end

    def _start_index(self) -> int:
        """Return the index in `start` of the symbol for <s>: $START if present, else the first."""
        number = self._id(START)
        return self.start.index(number) if number in self.start else 0

    def _unknown(self) -> int:
        ids = map(self._id, ("[UNK]", "<unk>", "[PAD]", "<pad>"))
        known = [number for number in ids if number is not None]
        return [*known, *self.start, *self.end][0]

    def _id(self, symbol: str) -> int | None:
        number: int | None = self._tokenizer.token_to_id(symbol)
        return number


class WordSubwords:
    """Table of subwords for the words in a dictionary. Each word is tokenized once."""

    def __init__(
        self,
        tokenizer: WordTokenizer,
        dictionary: Any,
        padding: int,
        vocabulary: int,
        positions: int,
    ) -> None:
        """Create an empty table. Words are tokenized when their subwords are needed.

        Args:
            tokenizer: the encoder's tokenizer.
            dictionary: dictionary of the words, a `WordIds` or an `OovDictionary`.
            padding: padding id of the encoder.
            vocabulary: vocabulary size of the encoder.
            positions: maximum number of subwords in a sentence. A word is truncated to a quarter of
                this number.

        Raises:
            DataError: if the encoder has no embedding for a tokenizer id or for the padding id.
        """
        if tokenizer.size > vocabulary or not 0 <= padding < vocabulary:
            raise DataError(
                f"The tokenizer of the encoder has ids up to {tokenizer.size - 1}, and the padding "
                f"id is {padding}. Expected ids from 0 to {vocabulary - 1}, as in the vocabulary "
                "of the encoder."
            )
        self.tokenizer = tokenizer
        self.dictionary = dictionary
        self.padding = padding
        self.vocabulary = vocabulary
        self.limit(positions)
        self._table = Spans(np.empty(0, np.int64), np.empty(0, np.int64))
        """Subwords by word id. Words that cannot be tokenized have no subwords."""
        self._failures: dict[int, str] = {}
        """Error messages of the words that cannot be tokenized, by word id."""

    def limit(self, positions: int) -> None:
        """Truncate words to `positions` / 4 subwords. Call this before any word is tokenized."""
        self.longest = max(1, positions // 4)

    def subwords(self, words: Ids) -> Spans:
        """Return the subword ids of each word. For <s>, they are the encoder's start symbols."""
        return self._table_for(words).select(words)

    def lengths(self, words: Ids) -> Ids:
        """Return the number of subwords of each word."""
        lengths: Ids = self._table_for(words).lengths[words]
        return lengths

    def forget_unknown(self) -> None:
        """Discard the subwords of out-of-vocabulary words."""
        vocabulary = min(len(self._table), len(self.dictionary.symbols))
        self._table = self._table.select(np.arange(vocabulary))
        self._failures = {word: why for word, why in self._failures.items() if word < vocabulary}

    def grams(self, grams: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return the subword ids of each q-gram, concatenated over its words."""
        return [
            [number for word in gram for number in self.tokenizer.encode(word, self.longest)]
            for gram in grams
        ]

    @property
    def ends(self) -> int:
        """Number of start and end symbols that are added to a sentence."""
        return len(self.tokenizer.start) + len(self.tokenizer.end)

    def batch(self, text: Spans, multiple: int = 1) -> SubwordBatch:
        """Return the subwords of sentences as a padded batch.

        Args:
            text: sentences of dictionary ids, each beginning with <s>.
            multiple: multiple to which the length of the time axis is rounded up.
        """
        subwords = self.subwords(text.ids)
        words = Spans(subwords.lengths, text.lengths)
        totals = np.add.reduceat(subwords.lengths, text.starts)
        sentences = Spans(subwords.ids, totals)
        for symbol in self.tokenizer.end:
            sentences = sentences.with_last(symbol)
        within = np.cumsum(subwords.lengths) - subwords.lengths
        first = within - np.repeat(np.cumsum(totals) - totals, text.lengths)
        counts = words.ids.copy()
        if self.tokenizer.start:
            first[text.starts] = self.tokenizer.start_index
            counts[text.starts] = len(self.tokenizer.start) - self.tokenizer.start_index
        else:  # such as XLNet, whose last symbol represents the sentence
            first[text.starts] = sentences.lengths - 1
            counts[text.starts] = 1
        return SubwordBatch(
            sentences.pad(self.padding, False, 0, multiple),
            Spans(first, text.lengths).pad(0, False, 0, 1),
            Spans(counts, text.lengths).pad(0, False, 0, 1),
        )

    def _table_for(self, words: Ids) -> Spans:
        """Return the table after adding the missing words.

        Raises:
            DataError: if one of the words cannot be tokenized.
        """
        if int(words.max(initial=0)) >= len(self._table):
            self._add_words()
        if self._failures:
            failed = words[self._table.lengths[words] == 0]
            if len(failed):
                raise DataError(self._failures[int(failed[0])])
        return self._table

    def _add_words(self) -> None:
        """Tokenize the dictionary words that are not in the table."""
        known, symbols = len(self._table), self.dictionary.symbols
        rows = []
        for number, word in enumerate([*symbols, *self.dictionary.surfaces][known:], known):
            try:
                rows.append(self.tokenizer.encode(word, self.longest))
            except DataError as error:
                self._failures[number] = str(error)
                rows.append([])
        added = Spans.of([np.array(row, np.int64) for row in rows])
        if not known:
            added = self._with_symbols(added)
        self._table = self._table.concat(added)

    def _with_symbols(self, table: Spans) -> Spans:
        """Replace the subwords of fairseq's special symbols, the first entries of `table`.

        <s> gets the encoder's start symbols. The other special symbols get the unknown subword.
        """
        dictionary = self.dictionary
        rows = [np.array([self.tokenizer.unknown])] * dictionary.nspecial
        rows[dictionary.bos()] = np.array(self.tokenizer.start, np.int64)
        rest = table.select(np.arange(dictionary.nspecial, len(table)))
        return Spans.of(rows).concat(rest)
