"""Generate toy tasks of the demo, each of which needs what one method adds.

late-evidence   The last word of a sentence decides the form of its verb, which comes early.
                she walk near the old house yesterday  ->  she walked near the old house yesterday
names           Known words are translated, and names, each of them new, are copied.
                w3 Kfbqzwea w7  ->  v3 Kfbqzwea v7
revisions       Errors of agreement, article and spelling, and phrases that lack their last words.
                A training target is the next revision, which adds one word to a phrase. The
                targets of the validation and test sets are the final texts.
                dog bark in the rain .  ->  a dog barks in spite of the rain .
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path

SUBJECTS = ("she", "he", "it", "anna", "tom", "nobody", "everyone")
ACTIONS = ("walk", "work", "cook", "look", "jump", "call", "wait", "talk")
PLACES = ("at school", "in the park", "near the old house", "on the road", "there", "with friends")
FORMS = {"yesterday": "ed", "daily": "s", "tomorrow": "ll"}
"""The ending of the verb, by the last word."""

KNOWN_WORDS = tuple(f"w{i}" for i in range(20))
LETTERS = "abcdefghijklmnopqrstuvwxyz"

NOUNS = ("dog", "cat", "owl", "teacher", "artist", "child", "engine", "king", "uncle")
PLURALS = {"child": "children"}
NUMBERS = ("two", "three", "many")
ADVERBS = ("often", "always", "quietly", "today")
VERBS = ("bark", "sing", "wait", "sleep", "work", "play")
MISSPELLED = {"always": "allways", "quietly": "quitely", "teacher": "teecher", "engine": "enjine"}
PHRASES = (
    ("in", "spite", "of", "the rain"),
    ("in", "front", "of", "the house"),
    ("on", "top", "of", "the hill"),
    ("next", "door", "to", "the school"),
)
ERROR_RATE = 0.3

Pair = tuple[str, str]


def late_evidence(draw: random.Random, is_training: bool) -> Pair:
    """Return a sentence with a random form of its verb, and with the form that fits its end."""
    subject, verb = draw.choice(SUBJECTS), draw.choice(ACTIONS)
    places = " ".join(draw.sample(PLACES, draw.randint(1, 3)))
    last = draw.choice(sorted(FORMS))
    wrong, right = verb + draw.choice(("", *FORMS.values())), verb + FORMS[last]
    return f"{subject} {wrong} {places} {last}", f"{subject} {right} {places} {last}"


def names(draw: random.Random, is_training: bool) -> Pair:
    """Return 4 to 8 words, a third of them one of two new names, and their translation."""
    invented = ["".join(draw.choice(LETTERS) for _ in range(8)).title() for _ in range(2)]
    source = [
        draw.choice(invented) if draw.random() < 1 / 3 else draw.choice(KNOWN_WORDS)
        for _ in range(draw.randint(4, 8))
    ]
    return " ".join(source), " ".join(map(_translation, source))


def _translation(word: str) -> str:
    return word.replace("w", "v") if word in KNOWN_WORDS else word


def revisions(draw: random.Random, is_training: bool) -> Pair:
    """Return a sentence with errors, and its next revision or the final text."""
    *phrase, place = draw.choice(PHRASES)
    written = draw.randint(0, len(phrase))
    revised = min(written + 1, len(phrase)) if is_training else len(phrase)
    right = _clause(draw)
    wrong = [word for one in right for word in _with_error(one, draw)]
    source = [*wrong, *phrase[:written], place, "."]
    return " ".join(source), " ".join([*right, *phrase[:revised], place, "."])


def _clause(draw: random.Random) -> list[str]:
    """Return a subject and a verb that agree, and maybe an adverb."""
    noun, verb = draw.choice(NOUNS), draw.choice(VERBS)
    adverb = [draw.choice(ADVERBS)] if draw.random() < 0.5 else []
    if draw.random() < 0.5:
        return ["an" if noun[0] in "aeiou" else "a", noun, *adverb, f"{verb}s"]
    return [draw.choice(NUMBERS), PLURALS.get(noun, f"{noun}s"), *adverb, verb]


def _with_error(word: str, draw: random.Random) -> list[str]:
    """Return the word, or sometimes an error in its place."""
    if draw.random() >= ERROR_RATE:
        return [word]
    if word in ("a", "an"):
        return draw.choice(([], ["an" if word == "a" else "a"]))
    stem = word.removesuffix("s")
    if stem in VERBS:
        return [f"{stem}s" if word == stem else stem]
    return [MISSPELLED.get(word, word)]


TASKS: dict[str, Callable[[random.Random, bool], Pair]] = {
    "late-evidence": late_evidence,
    "names": names,
    "revisions": revisions,
}


def write(folder: Path, task: str, split: str, lines: int) -> None:
    """Write SPLIT.src and SPLIT.trg."""
    draw = random.Random(f"{task} {split} 1")
    pairs = [TASKS[task](draw, split == "train") for _ in range(lines)]
    folder.mkdir(parents=True, exist_ok=True)
    for language, sentences in zip(("src", "trg"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{sentence}\n" for sentence in sentences)
        (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


def main() -> None:
    """Write all splits of one task; with names, also the dictionary of the known words."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("folder", type=Path, help="output folder")
    for split, lines in (("train", 2000), ("test", 300)):
        parser.add_argument(
            f"--{split}", type=int, default=lines, metavar="N", help="pairs (default: %(default)s)"
        )
    args = parser.parse_args()
    for split, lines in (("train", args.train), ("valid", 200), ("test", args.test)):
        write(args.folder, args.task, split, lines)
    if args.task == "names":
        words = [*KNOWN_WORDS, *map(_translation, KNOWN_WORDS)]
        entries = "".join(f"{word} 1\n" for word in words)
        (args.folder / "dict.txt").write_text(entries, encoding="utf-8")


if __name__ == "__main__":
    main()
