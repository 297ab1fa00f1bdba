"""Print the character error rate in output of fairseq-generate, as defined in the slides.

The error rate of a sentence is the share of its characters, </s> included, that differ from the
reference at the same position. The result is the mean over sentences, with the share of sentences
that have an error.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

END = "</s>"


def misclassified(written: list[str], reference: list[str]) -> float:
    """Return the share of wrong characters, </s> included."""
    made, wanted = [*written, END], [*reference, END]
    right = sum(one == other for one, other in zip(made, wanted, strict=False))
    return 1 - right / len(made)


def read(text: str) -> list[tuple[list[str], list[str]]]:
    """Return hypothesis and reference of each sentence."""
    wanted = dict(re.findall(r"^T-(\d+)\t(.*)$", text, re.M))
    made = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", text, re.M))
    return [(made[number].split(), line.split()) for number, line in wanted.items()]


def main() -> None:
    """Print the error rates as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("generated", type=Path, help="output of fairseq-generate")
    args = parser.parse_args()
    pairs = read(args.generated.read_text(encoding="utf-8"))
    if not pairs:
        parser.error(f"{args.generated} holds no T- and H- lines of fairseq-generate.")
    shares = [misclassified(*pair) for pair in pairs]
    wrong = sum(share > 0 for share in shares)
    print(
        json.dumps(
            {
                "misclassification": sum(shares) / len(shares),
                "sentences_wrong": wrong / len(shares),
                "sentences": len(shares),
            }
        )
    )


if __name__ == "__main__":
    main()
