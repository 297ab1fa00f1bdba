"""Write tests/fixtures/gector: tiny models in GECToR's format, and what GECToR's code corrects.

    /path/to/gector-environment/bin/python make_fixture.py

The environment needs the packages gector 1.2, transformers 4.57, torch, sentencepiece and protobuf.
The models learn to correct sentences of `examples/common/toy_sentences.py` with random errors.
`oracle.json` has sentences, and the corrected sentences of each model for three settings of the
thresholds. Sentences with a close decision are left out, so that the corrections do not depend on
hardware.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from oracle import SETTINGS
from reference import Correction, Gector

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "examples/common"))
import toy_sentences  # noqa: E402

gector: Any = import_module("gector")
FIXTURE = ROOT / "tests/fixtures/gector"
MARGIN = 1e-3
"""Min margin of the decisions in the fixture."""
SENTENCES = 50
TRAINING, EPOCHS = 2000, 25
"""Sentences and epochs of the training."""
OFFICIAL_NAMES = {
    "bert.": "text_field_embedder.token_embedder_bert.bert_model.",
    "label_proj_layer.": "tag_labels_projection_layer._module.",
    "d_proj_layer.": "tag_detect_projection_layer._module.",
}
"""Prefixes of the names of weights, here and in Grammarly's checkpoints."""
SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 84,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TAGS = ("VB", "VBZ", "VBD", "VBG", "VBN")
VERBS = {
    verb: (verb, third, past, participle, past)
    for verb, third, past, participle in (
        ("watch", "watches", "watched", "watching"),
        ("follow", "follows", "followed", "following"),
        ("hear", "hears", "heard", "hearing"),
        ("paint", "paints", "painted", "painting"),
        ("like", "likes", "liked", "liking"),
        ("find", "finds", "found", "finding"),
    )
}
FORMS = {
    form: (tag, verb) for verb, row in VERBS.items() for form, tag in zip(row, TAGS, strict=True)
}
"""Tag and verb of each form. A past participle that is also a past tense has the tag VBN."""
PREPOSITIONS = ("in", "at", "on", "near")
DETERMINERS = {*toy_sentences.ONE, *toy_sentences.MANY}
HYPHENATED = ("well-known", "old-fashioned", "good-looking")
ENDINGS = ("with an iPhone", "in the USA", "with the well-known DJ")
BY_HAND = (
    "The DJs watch a tea cher 's car in-the park .",
    "the dog the the watch the cat on home",
    "THE SMALL BIRD FOLLOW EVERY CAR AT THE HILL .",
    "These old fashioned car likes two farmer near the river .",
    "Every caf\u00e9 \u2603 find a good looking tree in a gar den .",
    "a bird",
    ".",
)
Words = list[tuple[str, str]]
"""Words of the source with their labels."""


def correct_sentence(draw: random.Random) -> list[str]:
    """Return the tokens of a sentence without errors."""
    words = toy_sentences.sentence(draw, 0.05).split()
    if draw.random() < 0.4:
        words.insert(1, draw.choice(HYPHENATED))
    if draw.random() < 0.4:
        words[-1:-1] = draw.choice(ENDINGS).split()
    return [words[0].capitalize(), *words[1:]]


def errors(draw: random.Random, word: str) -> Iterator[Words]:
    """Yield errors that a word can have."""
    if word in PREPOSITIONS:
        yield [(draw.choice(PREPOSITIONS), f"$REPLACE_{word}")]
    if word in DETERMINERS or word in (".", *PREPOSITIONS):
        yield []
        yield [(draw.choice(["the", "to", "a"]), "$DELETE"), (word, "$KEEP")]
    if word in FORMS:
        tag, verb = FORMS[word]
        other = draw.choice(TAGS[:4])
        yield [(VERBS[verb][TAGS.index(other)], f"$TRANSFORM_VERB_{other}_{tag}")]
    if word in toy_sentences.THINGS:
        yield [(f"{word}s", "$TRANSFORM_AGREEMENT_SINGULAR")]
    elif word.removesuffix("s") in toy_sentences.THINGS:
        yield [(word[:-1], "$TRANSFORM_AGREEMENT_PLURAL")]
    first, hyphen, second = word.partition("-")
    if hyphen:
        yield [(first, "$MERGE_HYPHEN"), (second, "$KEEP")]
    elif len(word) > 5:
        yield [(word[:3], "$MERGE_SPACE"), (word[3:], "$KEEP")]
    yield from case_errors(word)


def case_errors(word: str) -> Iterator[Words]:
    """Yield the error of the case that a word can have."""
    if word == "iPhone":
        yield [("iphone", "$TRANSFORM_CASE_CAPITAL_1")]
    elif word.isupper() and len(word) > 1:
        yield [(word.lower(), "$TRANSFORM_CASE_UPPER")]
    elif word.istitle():
        yield [(word.lower(), "$TRANSFORM_CASE_CAPITAL")]
    elif word.islower():
        yield [(word.capitalize(), "$TRANSFORM_CASE_LOWER")]


def add_errors(draw: random.Random, correct: list[str], rate: float) -> Words:
    """Return a sentence with errors. Omitted words are appended to the word before them."""
    words: Words = [("$START", "$KEEP")]
    for word in correct:
        choices = [*errors(draw, word)] if draw.random() < rate else []
        if not choices:
            words.append((word, "$KEEP"))
        elif choice := draw.choice(choices):
            words += [(word, "$KEEP") if text == word else (text, tag) for text, tag in choice]
        elif words[-1][1] == "$KEEP":
            words[-1] = (words[-1][0], f"$APPEND_{word}")
        if len(words) > 2 and draw.random() < rate / 4 and words[-1][1] == words[-2][1] == "$KEEP":
            words[-2:] = [(f"{words[-2][0]}-{words[-1][0]}", "$TRANSFORM_SPLIT_HYPHEN")]
    return words


def bert(folder: Path, text: str) -> tuple[Any, Any]:
    """Return the tokenizer and the encoder of BERT."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(lowercase=False)
    tokenizer.train([text], vocab_size=220, show_progress=False)
    tokenizer.save_model(str(folder))
    fast = transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False)
    config = transformers.BertConfig(len(fast), **SIZES)
    return fast, transformers.BertModel(config, add_pooling_layer=False)


def byte_level(folder: Path, text: str, symbols: list[str], tokenizer: Any) -> Any:
    """Return a byte-level tokenizer of a class of transformers."""
    from tokenizers import ByteLevelBPETokenizer

    learner = ByteLevelBPETokenizer()
    learner.train([text], vocab_size=310, show_progress=False, special_tokens=symbols)
    learner.save_model(str(folder))
    return tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


def roberta(folder: Path, text: str) -> tuple[Any, Any]:
    """Return the tokenizer and the encoder of RoBERTa."""
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    fast = byte_level(folder, text, symbols, transformers.RobertaTokenizerFast)
    config = transformers.RobertaConfig(len(fast), **SIZES, type_vocab_size=1)
    return fast, transformers.RobertaModel(config, add_pooling_layer=False)


def deberta(folder: Path, text: str) -> tuple[Any, Any]:
    """Return the tokenizer and the encoder of DeBERTa, with the options of deberta-base."""
    symbols = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    fast = byte_level(folder, text, symbols, transformers.DebertaTokenizerFast)
    config = transformers.DebertaConfig(
        len(fast),
        **SIZES,
        type_vocab_size=0,
        relative_attention=True,
        position_biased_input=False,
        pos_att_type=["c2p", "p2c"],
        pad_token_id=fast.pad_token_id,
    )
    return fast, transformers.DebertaModel(config)


def xlnet(folder: Path, text: str) -> tuple[Any, Any]:
    """Return the tokenizer and the encoder of XLNet."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=text,
        model_prefix=str(folder / "spiece"),
        vocab_size=220,
        hard_vocab_limit=False,
        pad_id=-1,
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
        user_defined_symbols=["<eop>"],
        normalization_rule_name="identity",  # the map of characters takes 300 kB
        minloglevel=2,
    )
    fast = transformers.XLNetTokenizerFast(str(folder / "spiece.model"))
    config = transformers.XLNetConfig(
        len(fast), SIZES["hidden_size"], 2, 2, SIZES["intermediate_size"], dropout=0.0
    )
    return fast, transformers.XLNetModel(config)


Builder = Callable[[Path, str], tuple[Any, Any]]
MODELS: dict[str, Builder] = {
    "bert": bert,
    "roberta": roberta,
    "xlnet": xlnet,
    "deberta": deberta,
    "bert_th": bert,
}
"""Encoders by name of the model. The last one is saved as a checkpoint of Grammarly."""


def train(folder: Path, name: str, pairs: Path, text: Path) -> None:
    """Train a model, and save it as their train.py does, with its encoder in a folder."""
    torch.manual_seed(1)
    encoder = folder / "encoder"
    encoder.mkdir(parents=True)
    for part in MODELS[name](encoder, str(text)):
        part.save_pretrained(encoder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder, add_prefix_space=True)
    is_official = name.endswith("_th")
    if is_official:  # there are no symbols around a sentence, and $START is plain text
        template = import_module("tokenizers.processors").TemplateProcessing
        tokenizer.backend_tokenizer.post_processor = template("$A", special_tokens=[])
    else:
        tokenizer.add_special_tokens({"additional_special_tokens": ["$START"]})
    dataset = gector.load_dataset(str(pairs), tokenizer, max_length=40)
    labels, error_labels = gector.build_vocab(dataset)
    dataset.append_vocab(labels, error_labels)
    config = gector.GECToRConfig(
        model_id=str(encoder),
        label2id=labels,
        id2label={index: label for label, index in labels.items()},
        d_label2id=error_labels,
        has_add_pooling_layer=name.startswith(("bert", "roberta")),
        max_length=80,
    )
    model = gector.GECToR(config)
    model.tune_bert()
    fit(model.train(), dataset, name)
    if is_official:
        write_official(model, folder, "bert_0_toy.th", legacy=True)
    else:
        model.config.model_id = f"toy-{name}"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def fit(model: Any, dataset: Any, name: str) -> None:
    """Train the parameters of a model."""
    batches = torch.utils.data.DataLoader(dataset, 64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters())
    updates = EPOCHS * len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, updates, pct_start=0.1)
    loss = 0.0
    for epoch in range(EPOCHS):
        for batch in batches:
            output = model(**batch)
            optimizer.zero_grad()
            output.loss.backward()
            optimizer.step()
            schedule.step()
            loss = output.loss.item()
        print(f"{name}: epoch {epoch}, loss {loss:.3f}", file=sys.stderr)


def write_official(model: Any, folder: Path, name: str, legacy: bool) -> None:
    """Write a checkpoint with Grammarly's names of weights, and its table of labels.

    NAME_0_VERSION.th has no embedding of $START. The first label is $KEEP.
    """
    labels = model.config.label2id
    table = sorted(labels.keys() - {"<OOV>", "<PAD>"}, key=labels.__getitem__)
    order = [*(labels[label] for label in table), labels["<OOV>"]]
    weights = {}
    for key, weight in model.state_dict().items():
        if "word_embedding" in key and name.split("_")[1] == "0":
            weight = weight[:-1]
        if key.startswith("label_proj_layer"):
            weight = with_rows(weight[order], len(order) + 1)
        elif key.startswith("d_proj_layer"):
            weight = with_rows(weight, 4)
        for own, official in OFFICIAL_NAMES.items():
            key = key.replace(own, official) if key.startswith(own) else key
        weights[key] = weight.clone()
    torch.save(weights, folder / name, _use_new_zipfile_serialization=not legacy)
    vocabulary = folder / "output_vocabulary"
    vocabulary.mkdir()
    for file, names in (("labels", table), ("d_tags", ["$CORRECT", "$INCORRECT"])):
        lines = [*names, "@@UNKNOWN@@", "@@PADDING@@"]
        (vocabulary / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines))


def with_rows(weight: torch.Tensor, rows: int) -> torch.Tensor:
    """Return a weight with more rows, of zeros."""
    return torch.cat([weight, weight.new_zeros(rows - len(weight), *weight.shape[1:])])


def select(sentences: list[str], corrections: dict[str, list[list[Correction]]]) -> list[int]:
    """Return the sentence indices of the fixture.

    A sentence is left out if a decision is close, or if a correction has an empty token or a
    literal label, which the package does not write. Sentences with versions that recur are
    preferred, then those in which the thresholds have an effect, then those with the most rounds.
    """
    ranks = {}
    for index in range(len(sentences)):
        models = [[rows[index] for rows in settings] for settings in corrections.values()]
        rows = [row for model in models for row in model]
        is_exact = all("  " not in row.text and "$" not in row.text for row in rows)
        if is_exact and min(row.margin for row in rows) > MARGIN:
            texts = sum(len({row.text for row in model}) for model in models)
            rounds = sum(row.rounds for row in rows)
            recurs = any(row.recurs for row in rows)
            ranks[index] = (index >= len(BY_HAND), not recurs, -texts, -rounds)
    return sorted(sorted(ranks, key=ranks.__getitem__)[:SENTENCES])


def write_verbs(path: Path) -> None:
    """Write the table of verb forms."""
    lines = dict.fromkeys(
        f"{row[source]}_{row[target]}:{TAGS[source]}_{TAGS[target]}"
        for row in VERBS.values()
        for source, target in permutations(range(len(TAGS)), 2)
        if row[source] != row[target]
    )
    path.write_text("".join(f"{line}\n" for line in lines))


def copy_model(folder: Path, target: Path) -> None:
    """Copy the files of a model that the package reads."""
    for pattern in (
        "config.json",
        "tokenizer.json",
        "*.safetensors",
        "*.th",
        "verb-form-vocab.txt",
    ):
        for path in folder.glob(pattern):
            shutil.copy(path, target / path.name)
    if (folder / "output_vocabulary").is_dir():
        shutil.copytree(folder / "output_vocabulary", target / "output_vocabulary")
    (target / "encoder").mkdir()
    names = ["config.json", "tokenizer.json"] if folder.name.endswith("_th") else ["config.json"]
    for name in names:
        shutil.copy(folder / "encoder" / name, target / "encoder" / name)


def main() -> None:
    """Write the fixture."""
    torch.set_num_threads(1)
    draw = random.Random(1)
    with TemporaryDirectory() as temporary:
        build = Path(temporary)
        lines = [correct_sentence(draw) for _ in range(TRAINING)]
        text, pairs = build / "text", build / "pairs"
        text.write_text("".join(" ".join(["$START", *line]) + "\n" for line in lines))
        with pairs.open("w") as file:
            for line in lines:
                words = add_errors(draw, line, 0.15)
                file.write(" ".join(f"{word}SEPL|||SEPR{tag}" for word, tag in words) + "\n")
        sentences = [*BY_HAND]
        for _ in range(600):
            words = add_errors(draw, correct_sentence(draw), 0.3)
            sentences.append(" ".join(word for word, _ in words[1:]))
        corrections = {}
        for name in MODELS:
            train(build / name, name, pairs, text)
            write_verbs(build / name / "verb-form-vocab.txt")
            model = Gector(build / name)
            corrections[name] = [model.correct(sentences, *setting) for setting in SETTINGS]
        chosen = select(sentences, corrections)
        shutil.rmtree(FIXTURE, ignore_errors=True)
        for name in MODELS:
            (FIXTURE / name).mkdir(parents=True)
            copy_model(build / name, FIXTURE / name)
    texts = {
        name: [
            {
                "keep_confidence": keep,
                "min_error_prob": error,
                "corrected": [rows[index].text for index in chosen],
            }
            for (keep, error), rows in zip(SETTINGS, settings, strict=True)
        ]
        for name, settings in corrections.items()
    }
    oracle = {"sentences": [sentences[index] for index in chosen], "models": texts}
    content = json.dumps(oracle, ensure_ascii=False, indent=1)
    (FIXTURE / "oracle.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
