"""The part of the page with the sentences: what can be asked for, as a form."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fairseq_ssl.report.sentences import Sentences

ORDERS = {
    "gained": "A gained most over B",
    "lost": "A lost most to B",
    "apart": "scores of A and B furthest apart",
    "low": "A scored lowest",
}
UNLIKE = {"unlike": "words of A and B least alike"}
MANY = 2
"""Systems; of more, some can be hidden."""


def section(sentences: Sentences) -> str:
    """Return the form, and the places that the script fills."""
    return "\n".join(
        [
            '<section aria-labelledby="sentences"><h2 id="sentences">Sentences</h2>',
            "<noscript><p>Sentences are shown by a script, which this browser does not run.</p>"
            "</noscript>",
            '<form id="filter" role="search" aria-labelledby="sentences">',
            *_texts(sentences),
            *_errors(sentences),
            *_orders(sentences),
            _select(
                "Changes against", "against", _sides("nothing", sentences), sentences.against()
            ),
            '<button type="reset">Clear</button>',
            *_shown(sentences),
            "</form>",
            _note(sentences),
            '<p id="told" role="status"></p>',
            '<nav class="pages" aria-label="Pages"><button type="button" data-turn="-1">Before'
            '</button><label>Page <input id="page" type="number" min="1" value="1"></label>'
            '<span id="of"></span><button type="button" data-turn="1">After</button></nav>',
            '<ol id="list"></ol>',
            '<nav class="pages" aria-label="Pages, again"><button type="button" data-turn="-1">'
            'Before</button><span class="place"></span><button type="button" data-turn="1">After'
            "</button></nav></section>",
        ]
    )


def _texts(sentences: Sentences) -> list[str]:
    several = len(sentences.systems) > 1
    return [
        '<label>Text <input type="search" name="text" autocomplete="off"></label>',
        _select("Found in", "in", _sides("any of them", sentences)),
        _check("whole", "whole words"),
        _check("changed", "only where changed"),
        _check("differ", "only where systems differ") if several else "",
    ]


def _errors(sentences: Sentences) -> list[str]:
    if sentences.errors is None:
        return []
    types, main = sentences.types(), sentences.main_types()
    outcomes = [
        (f"{outcome} {at}", f"{outcome} by {name}")
        for outcome in ("missed", "corrected")
        for at, name in enumerate(sentences.systems)
    ]
    shown = {kind: f"{kind} ({main[kind]})" for kind in sorted(main)}
    if types != main:
        shown |= {kind: f"{kind} ({types[kind]})" for kind in sorted(types) if kind not in main}
    return [
        _select("Error type", "type", {"": "all", **shown}),
        _select("What became of it", "outcome", {"": "anything", **dict(outcomes)}),
    ]


def _orders(sentences: Sentences) -> list[str]:
    several, scored = len(sentences.systems) > 1, sentences.scores is not None
    orders = {name: text for name, text in ORDERS.items() if scored and (several or name == "low")}
    orders |= UNLIKE if several else {}
    if not orders:
        return []
    numbers = {str(at): name for at, name in enumerate(sentences.systems)}
    found = [_select("Order", "sort", {"": "as given", **orders})]
    if several:
        found.append(_select("System A", "first", numbers, str(len(numbers) - 1)))
        found.append(_select("System B", "second", numbers, "0"))
    return found


def _shown(sentences: Sentences) -> list[str]:
    """Return boxes to hide systems by, where there are many."""
    if len(sentences.systems) <= MANY:
        return []
    boxes = "".join(
        f'<label class="check"><input type="checkbox" name="show" value="{at}" checked>'
        f"{escape(name)}</label>"
        for at, name in enumerate(sentences.systems)
    )
    return [
        "<details><summary>Systems shown</summary>"
        f'<fieldset><legend class="heard">Systems shown</legend>{boxes}</fieldset></details>'
    ]


def _note(sentences: Sentences) -> str:
    """Return what the numbers beside systems are, and whose outputs."""
    shown = []
    if sentences.scores is not None:
        shown.append(f"Beside each system: {escape(sentences.metric)} of the sentence.")
    if sentences.has_seeds:
        shown.append("Of several seeds, the output of the first is shown.")
    return f'<p class="faint">{" ".join(shown)}</p>' if shown else ""


def _sides(nothing: str, sentences: Sentences) -> dict[str, str]:
    names = [*sentences.sides(), *sentences.systems]
    return {"": nothing, **{name: name for name in names}}


def _check(name: str, text: str) -> str:
    return f'<label class="check"><input type="checkbox" name="{name}">{text}</label>'


def _select(label: str, name: str, options: Mapping[str, str], chosen: str = "") -> str:
    made = "".join(
        f'<option value="{escape(value)}"{" selected" * (value == chosen)}>{escape(text)}</option>'
        for value, text in options.items()
    )
    return f'<label>{label} <select name="{name}">{made}</select></label>'
