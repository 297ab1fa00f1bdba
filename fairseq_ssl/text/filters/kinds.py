"""The filters by name, and the words a user sets them with: ``langid:source=en,clean:max=100``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from fairseq_ssl.errors import UsageError
from fairseq_ssl.text import specs
from fairseq_ssl.text.filters.clean import CleanFilter
from fairseq_ssl.text.filters.duplicates import DuplicateFilter
from fairseq_ssl.text.filters.encoding import EncodingFilter
from fairseq_ssl.text.filters.filter import Filter
from fairseq_ssl.text.filters.identical import IdenticalFilter
from fairseq_ssl.text.filters.langid import LanguageFilter
from fairseq_ssl.text.filters.longest import LongestFilter

KINDS: dict[str, type[Any]] = {
    "clean": CleanFilter,
    "duplicates": DuplicateFilter,
    "encoding": EncodingFilter,
    "identical": IdenticalFilter,
    "langid": LanguageFilter,
    "longest": LongestFilter,
}
NOUN = "filter"


@dataclass(frozen=True)
class Setting:
    """One filter of a chain as its user asked for it."""

    kind: str
    options: Mapping[str, specs.Value]

    def __str__(self) -> str:
        """Return it with all its options, as in ``clean:min=1:max=100:ratio=3.0``."""
        values = {
            name: self.options.get(name, field.default)
            for name, field in specs.options_of(KINDS[self.kind]).items()
        }
        words = [
            f"{name.replace('_', '-')}={specs.format_value(value)}"
            for name, value in values.items()
            if value != ""
        ]
        return ":".join([self.kind, *words])


@dataclass(frozen=True)
class Chain:
    """The filters that see a row one after the other, and the one that comes last."""

    names: tuple[str, ...]
    """Of all of them."""
    filters: tuple[Filter[Any], ...]
    duplicates: DuplicateFilter | None

    @property
    def takes_any_bytes(self) -> bool:
        """Tell whether lines that are not UTF-8 are dropped here."""
        return any(isinstance(one, EncodingFilter) for one in self.filters)


def parsed(words: str) -> list[Setting]:
    """Read ``kind:option=value:...,kind,...``: filters of a chain, first to last."""
    return [Setting(*specs.parse_spec(NOUN, KINDS, word)) for word in words.split(",")]


def built(chain: Sequence[Setting], sides: int) -> Chain:
    """Make the filters for text of so many sides.

    The one for duplicates is put last: what the others say of a row does not depend on the rows
    before, so that their order is a matter of speed, while of equal rows the first has to be
    kept that passes all else.
    """
    ordered = sorted(chain, key=lambda setting: setting.kind == "duplicates")
    made = [_made(setting, sides) for setting in ordered]
    duplicates = [one for one in made if isinstance(one, DuplicateFilter)]
    if len(duplicates) > 1:
        raise UsageError("The filter duplicates is there twice. Run one after the other.")
    others = tuple(one for one in made if not isinstance(one, DuplicateFilter))
    return Chain(tuple(map(str, ordered)), others, duplicates[0] if duplicates else None)


def described() -> str:
    """Return a line for each kind and for each of its options, for a help text."""
    return specs.describe_registry(KINDS)


def _made(setting: Setting, sides: int) -> Any:
    kind = KINDS[setting.kind]
    needs_sides = any(field.name == "sides" for field in fields(kind))
    return kind(**({"sides": sides} if needs_sides else {}), **setting.options)
