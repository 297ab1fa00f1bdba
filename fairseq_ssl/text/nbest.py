"""N-best lists as Moses writes them: ``0 ||| text ||| name= score ... ||| total``.

A fifth field, which Moses' readers pass over, may say which lists a candidate comes from:
``from= l2r r2l``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from fairseq_ssl.errors import DataError
from fairseq_ssl.text.specs import parse_integer
from fairseq_ssl.text.tokenization import LineRewriter

SEPARATOR = "|||"
SOURCES = "from="


@dataclass(frozen=True)
class Candidate:
    """A text, and what is known of it."""

    text: str
    scores: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    """0 where no weights have made one."""
    sources: tuple[str, ...] = ()
    """The lists that it comes from."""


@dataclass(frozen=True)
class NBest:
    """The candidates of one sentence, the best first."""

    number: int
    candidates: list[Candidate]


def read_nbest(lines: Iterable[str], name: str) -> Iterator[NBest]:
    """Yield the sentences of a list in Moses' format, which messages call `name`.

    Numbers must rise. Of a name with several values, each gets a feature: NAME_0, NAME_1.
    """
    group: NBest | None = None
    for place, line in enumerate(lines, 1):
        number, candidate = read_candidate(line, f"{name}:{place}")
        if group is None or number != group.number:
            if group is not None:
                yield group
                if number < group.number:
                    raise DataError(
                        f"{name}:{place} has sentence {number} after {group.number}. Sort the "
                        "list by its first field."
                    )
            group = NBest(number, [])
        group.candidates.append(candidate)
    if group is None:
        raise DataError(f"{name} is empty. Expected lines as {_EXAMPLE}.")
    yield group


_EXAMPLE = "0 ||| text ||| name= -1.5 ||| -1.5"


def read_candidate(line: str, where: str) -> tuple[int, Candidate]:
    """Return what a line of a list in Moses' format tells, and of which sentence."""
    fields = [part.strip(" ") for part in line.split(SEPARATOR)]
    number = parse_integer(fields[0])
    if not 3 <= len(fields) <= 6 or number is None:
        raise DataError(f"{where} is no line of an n-best list. Expected one as {_EXAMPLE}.")
    total = _number(fields[3], "the total", where) if len(fields) > 3 and fields[3] else 0.0
    last = fields[4] if len(fields) > 4 else ""
    sources = tuple(last.split()[1:]) if last.startswith(SOURCES) else ()
    return number, Candidate(fields[1], _scores(fields[2], where), total, sources)


def _scores(words: str, where: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    name = None
    for word in words.split():
        if word.endswith("=") and len(word) > 1:
            name = word[:-1]
            if name in found:
                raise DataError(f"{where} has the score {name!r} twice.")
            found[name] = []
        elif name is None:
            raise DataError(f"{where} has {word!r} before any name. Expected name= score ....")
        else:
            found[name].append(_number(word, f"the score {name!r}", where))
    scores: dict[str, float] = {}
    for name, values in found.items():
        if not values:
            raise DataError(f"{where} has no number after {name}=.")
        names = [name] if len(values) == 1 else [f"{name}_{n}" for n in range(len(values))]
        scores.update(zip(names, values, strict=True))
    return scores


def _number(word: str, what: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise DataError(f"{where} has {word!r} as {what}; expected a number.") from None
    if not math.isfinite(value):
        raise DataError(f"{where} has {word} as {what}; expected a finite number.")
    return value


def nbest_lines(groups: Iterable[NBest]) -> Iterator[str]:
    """Yield the lines of a list in Moses' format."""
    for group in groups:
        for candidate in group.candidates:
            yield candidate_line(group.number, candidate)


def candidate_line(number: int, candidate: Candidate) -> str:
    """Return the line of a candidate of this sentence."""
    if SEPARATOR in candidate.text:
        raise DataError(
            f"A candidate of sentence {number} has {SEPARATOR} within its text, "
            f"which no n-best list can hold: {candidate.text[:80]!r}. Take it out first."
        )
    scores = " ".join(f"{name}= {value:.12g}" for name, value in candidate.scores.items())
    line = f"{number} ||| {candidate.text} ||| {scores} ||| {candidate.total:.12g}"
    if candidate.sources:
        line += f" ||| {SOURCES} {' '.join(candidate.sources)}"
    return line


def read_generated(
    lines: Iterable[str], name: str, score: str, rewrite: LineRewriter, right_to_left: bool = False
) -> Iterator[NBest]:
    """Yield the sentences that fairseq-generate printed with ``--nbest``, by number.

    The score is the logarithm of the probability, divided by the length as ``--lenpen`` says:
    the natural one, as all scores here, where fairseq-generate prints that to base 2.

    Args:
        lines: what fairseq-generate printed; lines other than H- are passed over
        name: of the file, for messages
        score: what the score is called
        rewrite: makes text of a hypothesis' tokens
        right_to_left: the last token is first, as a right-to-left model writes
    """
    found: dict[int, list[Candidate]] = {}
    for place, line in enumerate(lines, 1):
        printed = re.fullmatch(r"H-(\d+)\t([^\t]+)\t(.*)", line, re.DOTALL)
        if printed is None:
            if re.match(r"H-\d", line):
                raise DataError(f"{name}:{place} is cut off. Expected H-number, score, tokens.")
            continue
        tokens = printed[3].split(" ")
        text = rewrite(" ".join(reversed(tokens) if right_to_left else tokens))
        value = math.log(2) * _number(printed[2], "the score", f"{name}:{place}")
        found.setdefault(int(printed[1]), []).append(Candidate(text, {score: value}, value))
    if not found:
        raise DataError(
            f"{name} has neither lines of an n-best list, as {_EXAMPLE}, nor of fairseq-generate, "
            "as H-0, score and tokens between tabs."
        )
    for number in sorted(found):
        yield NBest(number, found[number])


def read_list(
    lines: Iterable[str], name: str, score: str, rewrite: LineRewriter, right_to_left: bool = False
) -> Iterator[NBest]:
    """Yield the sentences of a list in either format; its first line tells which."""
    stream = iter(lines)
    first = next(stream, None)
    if first is None:
        raise DataError(f"{name} is empty. Expected an n-best list, or fairseq-generate's output.")
    whole = chain([first], stream)
    if re.match(r"\d+ \|\|\|", first):
        return read_nbest(whole, name)
    return read_generated(whole, name, score, rewrite, right_to_left)


def merged(
    lists: Sequence[Iterable[NBest]], names: Sequence[str], most: int | None = None
) -> Iterator[NBest]:
    """Yield each sentence's candidates of all lists, a text once, in the lists' order.

    Scores of equal texts are united; of two of one list the first one's stays.

    Args:
        lists: the n-best lists, with the same sentences
        names: of the lists
        most: how many candidates to take of a list (all, if not given)
    """
    for groups in zip_longest(*lists):
        numbers = [None if group is None else group.number for group in groups]
        if len(set(numbers)) > 1:
            least = min(number for number in numbers if number is not None)
            without = next(n for n, number in zip(names, numbers, strict=True) if number != least)
            raise DataError(
                f"Sentence {least} is not in {without}. All lists must have the same sentences."
            )
        together: dict[str, Candidate] = {}
        for name, group in zip(names, groups, strict=True):
            own: set[str] = set()
            for candidate in group.candidates[:most]:
                if candidate.text not in own:
                    own.add(candidate.text)
                    before = together.get(candidate.text)
                    together[candidate.text] = _united(before, candidate, name, group.number)
        yield NBest(groups[0].number, list(together.values()))


def _united(before: Candidate | None, new: Candidate, name: str, number: int) -> Candidate:
    sources = new.sources or (name,)
    if before is None:
        return Candidate(new.text, new.scores, new.total, sources)
    for score, value in new.scores.items():
        if before.scores.get(score, value) != value:
            raise DataError(
                f"Sentence {number} has a candidate with {score}= {before.scores[score]:.12g} in "
                f"{', '.join(before.sources)} and {value:.12g} in {name}. Scores of different "
                "models need different names."
            )
    added = tuple(source for source in sources if source not in before.sources)
    scores = {**before.scores, **new.scores}
    return Candidate(before.text, scores, before.total, before.sources + added)
