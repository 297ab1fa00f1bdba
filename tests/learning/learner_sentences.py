"""Toy sentences with errors of agreement, article and spelling, and their corrections."""

from __future__ import annotations

import random
from pathlib import Path

SINGULAR = ("dog", "cat", "apple", "owl", "teacher", "artist", "child", "engine", "king", "uncle")
PLURAL = {"child": "children"}
VERBS = ("see", "like", "hear", "draw", "need", "find")
ADVERBS = ("often", "always", "quietly", "today")
NUMBERS = ("two", "three", "many")
MISSPELLED = {"always": "allways", "quietly": "quitely", "teacher": "teecher", "engine": "enjine"}
RAIN_STEPS = ("", "in ", "in spite ", "in spite of ")
"""Steps of a correction that inserts one word per round."""


def article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def sentence(draw: random.Random) -> list[str]:
    """Return a sentence without errors."""
    words = []
    is_one = draw.random() < 0.5
    noun = draw.choice(SINGULAR)
    words += [article(noun), noun] if is_one else [draw.choice(NUMBERS), plural(noun)]
    if draw.random() < 0.5:
        words.append(draw.choice(ADVERBS))
    words.append(draw.choice(VERBS) + ("s" if is_one else ""))
    noun = draw.choice(SINGULAR)
    one_more = draw.random() < 0.5
    words += [article(noun), noun] if one_more else [draw.choice(NUMBERS), plural(noun)]
    return [*words, "."]


def plural(noun: str) -> str:
    return PLURAL.get(noun, f"{noun}s")


def with_errors(words: list[str], rate: float, draw: random.Random) -> list[str]:
    """Return the words of a sentence with random errors."""
    found = []
    for word in words:
        verb = word.removesuffix("s")
        if draw.random() >= rate:
            found.append(word)
        elif word in ("a", "an"):
            found += draw.choice(([], ["an" if word == "a" else "a"]))
        elif verb in VERBS:
            found.append(verb if word != verb else f"{verb}s")
        else:
            found.append(MISSPELLED.get(word, word))
    return found


def rain_pairs() -> list[tuple[str, str]]:
    """Return pairs that insert one of three missing words, so that all three take three rounds."""
    lines = [f"they walk {said}the rain ." for said in RAIN_STEPS]
    return list(zip(lines, [*lines[1:], lines[-1]], strict=True))


def write(folder: Path, split: str, count: int, seed: int, rain: int = 0) -> None:
    """Write `split`.src and `split`.trg, with `rain` repetitions of `rain_pairs`."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        right = sentence(draw)
        pairs.append((" ".join(with_errors(right, 0.35, draw)), " ".join(right)))
    pairs += rain_pairs() * rain
    draw.shuffle(pairs)
    for number, side in enumerate(("src", "trg")):
        text = "".join(f"{pair[number]}\n" for pair in pairs)
        (folder / f"{split}.{side}").write_text(text)
