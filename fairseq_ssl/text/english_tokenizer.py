"""English tokenizer that follows the rules of spaCy's tokenizer but does not need spaCy."""

# ruff: noqa: RUF001 - quotes and dashes in text
from __future__ import annotations

import re
from functools import lru_cache

UPPER = "A-ZÀ-ÖØ-Þ"
LETTER = r"[^\W\d_]"
LOWER = rf"[^\W\d_{UPPER}]"
QUOTES = "'\"`´‘’‚“”„«»"
SYMBOLS = "¦©®°\u2195-\u21ff\u2300-\u23ff\u2440-\u27ff\u2800-\u2bff\U0001f000-\U0001faff"
MARKS = rf"{QUOTES}{SYMBOLS},:;!?¿¡…·，。：；？！、—–()\[\]{{}}<>_#*&"
"""Character class of marks that are separate tokens at the start or at the end of a word."""
CURRENCIES = "$£€¥₹"
UNITS = (
    "km km² km³ m m² m³ dm cm mm µm nm ha yd in ft kg g mg µg t lb oz K kmh km/h m/s mph "
    "kb mb KB MB GB TB G M %"
)
ABBREVIATIONS = (
    "Adm Ak Ala Apr Ariz Ark Aug Bros Calif Co Colo Conn Corp D.C Dec Del Dr E.G E.g Feb Fla Ga "
    "Gen Gov I.E I.e Ia Id Ill Inc Ind Jan Jr Jul Jun Kan Kans Ky La Ltd Mar Mass Md Messrs Mich "
    "Minn Miss Mo Mont Mr Mrs Ms Mt N.C N.D N.H N.J N.M N.Y Neb Nebr Nev Nov Oct Okla Ore Pa Ph.D "
    "Prof Rep Rev S.C Sen Sep Sept St Tenn Va Wash Wis a.m co e.g i.e p.m v.s vs"
)
EMOTICON = r"(?:[:;=]['’]?-?[()*/3DOPXopx|\]]+|\([:;]|8-?\)|<3+|\^_+\^)"
ATOMIC = re.compile(
    rf"(?:{'|'.join(map(re.escape, ABBREVIATIONS.split()))}|[a-z])\.|{EMOTICON}|and/or|w/o|C\+\+"
    r"|['’](?:em|cause|cos|bout|nuff|s|d|ll|re)|[Oo]l['’]"
    r"|(?:[Dd]o|[Gg]o|[Hh]av|[Ll]ov|[Nn]oth|[Ss]ometh)in['’]"
)
"""Pattern for words that are not split, such as abbreviations and emoticons."""
CONTRACTION = re.compile(
    r"""(?!.{1,11}[A-Z]) (?i:
    (ai|are|ca|could|dare|did|do|does|had|has|have|is|may|might|must|need|ought|sha|should|was|were
        |wo|would) (n['’]?t) (['’]?ve)?
    | (could|might|must|not|should|would) (['’]?ve)
    | (?!(?:ill|hell|shell|shed|well|were|whore|is|its|ire|here|there|theses?)(?!.))
      (i|you|he|she|it|we|they|this|that|there|these|those|who|what|when|where|why|how)
      (['’]?(?:d|ll|re|s|ve)) (['’]?ve)?
    | (i) (['’]?m) | (can) (not) | (gon) (na) | (got) (ta) | (c['’]m) (on) | (y['’]?) (all)
    | (1[012]|\d) ([ap]m|[ap]\.m\.) )""",
    re.VERBOSE,
)
"""Pattern for contractions, with a group for each token. "Don't" matches, "DON'T" does not."""
PREFIX = re.compile(rf"{EMOTICON}(?!\w)|\.\.+|['’]{{2}}|[{MARKS}{CURRENCIES}§%=]|\+(?!\d)")
SUFFIX = re.compile(
    rf"\.\.+|:\)|[sS]['’]|['’]{{2}}|[{MARKS}]|\.(?=[\d{MARKS}%²+-]|{LOWER}|[A-Z]{{2}}|[CFK]°)|\+(?=\d)"
    rf"|(?:[{CURRENCIES}]|{'|'.join(unit[::-1] for unit in UNITS.split())})(?=\d)"
)
"""Pattern for tokens at the end of a word. For speed, it matches the start of the reversed word."""
INFIX = re.compile(
    rf"(\.\.+|[…{SYMBOLS}]|(?<=\d)[+*^-](?=[\d-])|(?<={LETTER}),(?={LETTER})"
    rf"|(?:(?<={LOWER})|(?<=[{QUOTES},]))\.(?=[{UPPER}{QUOTES},])"
    rf"|(?<=[^\W_])(?:--?-?|–|——?|~|[:<>=/])(?={LETTER}))"
)
URL = re.compile(r"(?:\w+://|www\.).+|[^@]+@[^@]+\.\w+|(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:[/?#].*)?")
MAX_CACHED_LENGTH = 32
"""Maximum length of a cached word, in characters. Longer words are rare and need much memory."""


def tokenize_english(line: str) -> tuple[list[str], list[int]]:
    """Return the tokens of a line and the character offset at which each token starts."""
    tokens: list[str] = []
    starts: list[int] = []
    for match in re.finditer(r"\S+", line):
        word, at = match[0], match.start()
        split = _split_word if len(word) <= MAX_CACHED_LENGTH else _split_word.__wrapped__
        for token in split(word):
            tokens.append(token)
            starts.append(at)
            at += len(token)
    return tokens, starts


@lru_cache(maxsize=2**14)
def _split_word(word: str) -> tuple[str, ...]:
    """Split a word into tokens as in spaCy: exceptions, prefixes and suffixes, then infixes."""
    reversed_word, size = word[::-1], len(word)
    begin, end = 0, size
    tokens: list[str] = []
    suffixes: list[str] = []
    while begin < end:
        if match := CONTRACTION.fullmatch(word, begin, end):
            tokens += filter(None, match.groups())
            break
        if ATOMIC.fullmatch(word, begin, end):
            tokens.append(word[begin:end])
            break
        if match := PREFIX.match(word, begin, end):
            tokens.append(match[0])
            begin = match.end()
        elif match := SUFFIX.match(reversed_word, size - end, size - begin):
            end -= len(match[0])
            suffixes.append(match[0][::-1])
        else:
            rest = word[begin:end]
            tokens += [rest] if URL.fullmatch(rest) else filter(None, INFIX.split(rest))
            break
    return (*tokens, *reversed(suffixes))
