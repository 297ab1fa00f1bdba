"""Dictionary with ids for out-of-vocabulary words."""

from __future__ import annotations

from fairseq_ssl.data.oov_dictionary import OovDictionary


def dictionary() -> OovDictionary:
    words = OovDictionary()
    for word in ("a", "b"):
        words.add_symbol(word)
    return words


def test_unknown_words_get_unique_ids_above_the_vocabulary() -> None:
    words = dictionary()
    line = words.encode_line("a ? b ! ?", add_if_not_exist=False)
    assert line.tolist() == [4, 6, 5, 7, 6, 2]
    assert words.string(line) == "a ? b ! ?"
    assert len(words) == 6


def test_add_symbol_does_not_change_ids_once_there_are_unknown_words() -> None:
    words = dictionary()
    unknown = words.index("?")
    assert words.add_symbol("new") == unknown + 1
    assert words.add_symbol("a") == 4
    assert (words[unknown], words[unknown + 1], words[99]) == ("?", "new", "<unk>")
