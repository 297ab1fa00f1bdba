"""Label tables of GECToR models (Omelianchuk et al., 2020) as edit dictionaries.

Labels change a word as in the package `gector`, except in these cases:

- A word is kept if it or a part of it would become empty: "-" is not split, and the only letter in
  a word is not removed.
- CASE_UPPER_-1 and MERGE_SWAP do what their names suggest. In `gector`, the first label has no
  effect, and the second one inserts its name.
- Without a table of verb forms, lemminflect changes verbs in any letter case, such as "Go" to
  "Goes".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.labels import DELETE, KEEP, Label, parse_label
from fairseq_ssl.edits.transforms import GECTOR_FUNCTIONS, Transform, Transforms, with_forms
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.text_files import read_lines

VERB_FORMS = "verb-form-vocab.txt"
"""Usual file name of a table of verb forms."""
UNKNOWN = ("<OOV>", "@@UNKNOWN@@")
"""GECToR names of the unknown label, which stands for all labels missing from a table."""
NAMES = {
    "$KEEP": "KEEP",
    "$DELETE": "DELETE",
    "$TRANSFORM_CASE_LOWER": "CASE_lower",
    "$TRANSFORM_CASE_UPPER": "CASE_upper",
    "$TRANSFORM_CASE_CAPITAL": "CASE_capitalize",
    "$TRANSFORM_CASE_CAPITAL_1": "CASE_capitalize_second",
    "$TRANSFORM_CASE_UPPER_-1": "CASE_upper_start",
    **{f"$TRANSFORM_VERB_{tags}": f"VERB_{tags}" for tags in GECTOR_FUNCTIONS["verb"]},
    "$TRANSFORM_AGREEMENT_PLURAL": "SUFFIX_+s",
    "$TRANSFORM_AGREEMENT_SINGULAR": "NUMBER_cut",
    "$TRANSFORM_SPLIT_HYPHEN": "SPLIT_hyphen",
    **{f"$MERGE_{name.upper()}": f"MERGE_{name}" for name in ("space", "hyphen", "swap")},
    **dict.fromkeys(UNKNOWN, "UNKNOWN_label"),
}
"""Label names in this package, by GECToR name, for labels without words. The transforms are in the
order in which the authors' preprocessing tries them."""


class LabelTable(NamedTuple):
    """Edit dictionary of a GECToR model, and the mapping to the model's label indices."""

    edits: EditDictionary
    rows: tuple[int, ...]
    """For each label in `edits`, its index in the model."""


def label_table(names: Sequence[str], where: Path, verbs: Path | None = None) -> LabelTable:
    """Convert the labels of a GECToR model to an edit dictionary.

    Args:
        names: GECToR label names by index in the model, without the padding label
        where: path of the label file, for error messages
        verbs: path of a table of verb forms (default: forms from lemminflect)
    """
    rows = {_parse(name, where): row for row, name in enumerate(names)}
    if len(rows) < len(names) or KEEP not in rows or DELETE not in rows:
        raise DataError(
            f"The labels in {where} lack $KEEP or $DELETE, or contain a label twice. Expected both "
            "of these labels, and each label only once."
        )
    appends = [label for label in rows if label.kept and label.gram]
    replaces = [label for label in rows if not label.kept and label.gram]
    order = list(NAMES.values())
    transforms = sorted(
        (label for label in rows if label.transform), key=lambda label: order.index(str(label))
    )
    table = tuple(label.transform for label in transforms if label.transform)
    edits = EditDictionary(
        tuple(label.gram for label in appends),
        tuple(label.gram for label in replaces),
        max((len(label.gram) for label in rows), default=0) or 1,
        Transforms(_with_table(table, verbs), (frozenset(),) * len(table)),
        greedy=True,
    )
    labels = (KEEP, DELETE, *appends, *replaces, *transforms)
    return LabelTable(edits, tuple(rows[label] for label in labels))


def _parse(name: str, where: Path) -> Label:
    """Return the label for a GECToR label name. Raise DataError if the name is unknown."""
    if name in NAMES:
        return parse_label(NAMES[name])
    for prefix, kept in (("$APPEND_", True), ("$REPLACE_", False)):
        gram = tuple(name.removeprefix(prefix).split(" "))
        if name.startswith(prefix) and all(gram):
            return Label(kept, gram)
    raise DataError(
        f"{where} contains the label {name[:60]!r}. Expected $APPEND_WORD, $REPLACE_WORD or "
        "another GECToR label, such as $KEEP or $TRANSFORM_CASE_LOWER."
    )


def _with_table(transforms: tuple[Transform, ...], verbs: Path | None) -> tuple[Transform, ...]:
    """Return the transforms. If there is a table of verb forms, verb transforms use it."""
    if verbs is None:
        return transforms
    forms = read_verb_forms(verbs)
    return tuple(
        with_forms(transform, forms.get(transform.argument, {}))
        if transform.kind == "verb"
        else transform
        for transform in transforms
    )


def read_verb_forms(path: Path) -> dict[str, dict[str, str]]:
    """Read verb forms. Return a dict from word to form for each pair of tags, such as VB_VBZ.

    If a word has several forms, the first one is used.
    """
    forms: dict[str, dict[str, str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        match = re.fullmatch(r"([^_:]+)_([^_:]+):([A-Z]+_[A-Z]+)\s*", line)
        if match is None:
            raise DataError(
                f"{path}:{number} is {line[:60]!r}. Expected two verb forms and their tags, such "
                "as: go_goes:VB_VBZ"
            )
        forms.setdefault(match[3], {}).setdefault(match[1], match[2])
    return forms
