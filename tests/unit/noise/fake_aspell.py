"""Imitation of ``aspell -a`` with a dictionary of a few words.

Like Aspell, it suggests nothing for a correct word, and words in mixed case are not correct. For
the word "sleep" it waits until the parent process ends.
"""

from __future__ import annotations

import os
import re
import sys
import time

NEAR = {
    "their": "their there theirs they're",
    "there": "there their three",
    "london": "London Landon Lon+don",
    "nasa": "NASA nasal",
    "thier": "their there",
    "well": "well wall",
    "known": "known know",
    "naïve": "naive native",
}
RIGHT = {"their", "there", "well", "known", "London", "NASA"}


def main() -> int:
    """Answer each line of stdin."""
    assert {"-a", "--mode=none", "--encoding=utf-8"} <= set(sys.argv), sys.argv
    if "--lang=en" not in sys.argv:
        sys.stderr.write("Error: No word lists can be found for this language.\n")
        return 1
    sys.stdout.write("@(#) International Ispell Version 3.1.20 (but really Aspell 0.60.0)\n")
    for line in sys.stdin:
        assert line.startswith("^"), "else it is a command"
        for token in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", line):
            sys.stdout.write(f"{answer(token)}\n")
        sys.stdout.write("\n")
    return 0


def answer(token: str) -> str:
    """Return the answer for one word."""
    if token.lower() == "sleep":
        caller = os.getppid()
        while os.getppid() == caller:
            time.sleep(0.05)
    capital = token[0].upper() + token[1:].lower()
    if {token, *([token.lower()] if token in (capital, token.upper()) else [])} & RIGHT:
        return "*"
    near = [word.replace("+", " ") for word in NEAR.get(token.lower(), "").split()]
    return f"& {token} {len(near)} 1: {', '.join(near)}" if near else f"# {token} 1"


if __name__ == "__main__":
    sys.exit(main())
