"""All that is measured: each row of the table in README.md, in its order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A comparison."""

    key: str
    """Its name in results.json."""
    what: str
    """What is faster or smaller than what, and in which unit."""
    script: str
    options: str = ""
    """A word in capitals is a file of yours: --given MODEL=..."""
    known: str = ""
    """What a paper or a peer has."""
    note: str = ""
    """Why a goal is missed, and what would reach it."""


TOKENS = "--positions relative --length 256 --tokens 2048"
PARTS = "Two commands that share nothing got 1.8 of this machine; on whole cores they get 2."
SPREAD = "The goal lies within the spread of this machine's runs, which is wide."
CT2 = "At this size both spend their time in the same matrix products; smaller or int8 models gain."

SUITE = (
    Entry(
        "shape_training",
        "SHAPE over the stock Transformer, tokens/s of training",
        "shape_training",
        "--pairs 9 --steps 5",
        "1.00 (thesis, 6.3.2)",
    ),
    Entry(
        "shape_training.relative",
        "relative over absolute positions, tokens/s of training",
        "shape_training",
        "--positions relative --pairs 9 --steps 2",
        "0.91 (thesis, 6.3.2)",
    ),
    Entry(
        "shape_training.relative.long",
        "the same, as long as ten joined sentences",
        "shape_training",
        f"{TOKENS} --pairs 5 --steps 1",
        "0.05 (thesis, 6.3.2)",
    ),
    Entry(
        "shape_memory",
        "peak memory of training, absolute over relative positions",
        "shape_memory",
        "--positions relative --pairs 3 --steps 1",
    ),
    Entry("shape_memory.long", "the same, long", "shape_memory", f"{TOKENS} --pairs 3 --steps 1"),
    Entry("noise.direct", "direct noise over a plain one, lines/s", "noise_offline"),
    Entry(
        "noise.denoise",
        "denoise over a plain one with numpy calls for each line",
        "noise_offline",
        "--noise denoise",
    ),
    Entry(
        "noise.direct.processes",
        "two processes over one, from file to file, direct",
        "noise_offline",
        "--processes --sentences 2000000",
        note=PARTS,
    ),
    Entry(
        "noise.denoise.processes",
        "the same, denoise",
        "noise_offline",
        "--processes --noise denoise --sentences 1000000",
        note=PARTS,
    ),
    Entry(
        "denoising_items.noising",
        "`denoising_pretraining` over fairseq's NoisingDataset, sentences/s",
        "denoising_items",
        "--against noising --threads 1",
    ),
    Entry(
        "denoising_items.denoising",
        "the same, over its DenoisingDataset",
        "denoising_items",
        "--against denoising --threads 1",
    ),
    Entry(
        "denoising_training",
        "that task over `translation` of noise made before, training",
        "denoising_training",
        "--arch transformer_tiny --steps 40 --pairs 7 --threads 1",
    ),
    Entry(
        "edits_extraction",
        "PIE's edits over a full table for each pair, pairs/s",
        "edits_extraction",
    ),
    Entry(
        "edits_extraction.processes",
        "the same, two processes over one",
        "edits_extraction",
        "--processes --pairs 2 --sentences 3000",
    ),
    Entry(
        "edit_decoding",
        "`edit_tagger_base`, two rounds, over a big Transformer with beam 4, one sentence of 20 "
        "words at a time",
        "edit_decoding",
        note="In float32 a CPU reads the weights of the base size once a round: int8 or bfloat16.",
    ),
    Entry("edit_decoding.int8", "the same in int8", "edit_decoding", "--kind int8"),
    Entry("edit_decoding.bf16", "the same in bfloat16", "edit_decoding", "--kind bf16"),
    Entry("edit_decoding.50", "the same in float32, 50 words", "edit_decoding", "--length 50"),
    Entry(
        "edit_decoding.50.int8",
        "the same in int8, 50 words",
        "edit_decoding",
        "--length 50 --kind int8",
    ),
    Entry(
        "pseudo_bidirectional",
        "PBD's big size over the big Transformer, sentences/s, beam 5",
        "pseudo_bidirectional",
        "--sentences 2 --pairs 3",
    ),
    Entry(
        "pseudo_bidirectional.training",
        "the same, target tokens/s of training",
        "pseudo_bidirectional",
        "--training --pairs 3 --steps 1",
    ),
    Entry(
        "pointer_transformer",
        "`pointer_transformer` over the stock Transformer of its size, 50,000 words, target "
        "tokens/s of training",
        "pointer_transformer",
    ),
    Entry(
        "pointer_transformer.memory",
        "the same, peak memory, the stock one's over its",
        "pointer_transformer",
        "--what memory",
    ),
    Entry(
        "pointer_transformer.decoding",
        "the same, sentences/s, beam 5",
        "pointer_transformer",
        "--what decoding",
    ),
    Entry(
        "aggressive_decoding",
        "`--aggressive` over greedy search, a base Transformer, 25 words, one replaced and one "
        "put in",
        "aggressive_decoding",
        "--arch transformer",
    ),
    Entry(
        "aggressive_decoding.big",
        "the same, a big one",
        "aggressive_decoding",
        "--sentences 2",
        note="Bound by the arithmetic of its feed-forward layers, which no draft saves; a GPU.",
    ),
    Entry(
        "ctranslate2_export.int8",
        "an export to CTranslate2 in int8 over fairseq, sentences/s, beam 5",
        "ctranslate2_export",
        "--compute-type int8",
        note=CT2,
    ),
    Entry(
        "ctranslate2_export",
        "the same in float32",
        "ctranslate2_export",
        "--pairs 3",
        note=CT2,
    ),
    Entry(
        "ctranslate2_export.tiny",
        "the same, a tiny model",
        "ctranslate2_export",
        "--arch shape_transformer_tiny --vocabulary 1000",
    ),
    Entry(
        "back_translation",
        "`back-translate` by CTranslate2 (int8) over `fairseq-generate`, whole commands, a trained "
        "model",
        "back_translation",
        "--model MODEL --data-dir DATA --text TEXT --compute-type int8 --pairs 2",
    ),
    Entry(
        "back_translation_growth",
        "`back-translate`, a tiny model, sentences/s of 100,000 lines over those of 10,000",
        "back_translation_growth",
        "--pairs 2",
    ),
    Entry(
        "back_translation_growth.million",
        "the same, of 1,000,000 over 100,000",
        "back_translation_growth",
        "--sentences 100000 --times 10 --pairs 1",
    ),
    Entry(
        "mixing_memory",
        "memory of an epoch's batches, splits joined by fairseq over splits mixed, an epoch a "
        "twentieth of the pairs",
        "mixing_memory",
        "--epoch-pairs 300000 --pairs 1",
    ),
    Entry(
        "m2_scorer",
        "MaxMatch over a direct lattice with Bellman-Ford, sentences of 22 words",
        "m2_scorer",
        "--pairs 9 --sentences 60",
        note="Short sentences spend their time in tables; the ratio grows with the length.",
    ),
    Entry(
        "m2_scorer.30",
        "the same, 30 words",
        "m2_scorer",
        "--pairs 9 --sentences 60 --length 30",
        note=SPREAD,
    ),
    Entry(
        "rerank_search",
        "weights by grid from n-gram statistics over scoring the text again at each point",
        "rerank_search",
    ),
    Entry(
        "classification.imitators.1",
        "imitators with window 1 over an LSTM classifier, tokens/s of training",
        "classification_training",
        "--what 1",
        "13.3 (thesis, table 3.4, GPU)",
        note="20.2 on an Intel Xeon; an eighth is the gradient's zeros: --sparse-gradients.",
    ),
    Entry(
        "classification.imitators.2",
        "the same, windows 1 and 2",
        "classification_training",
        "--what 2",
        "5.6 (thesis, GPU)",
    ),
    Entry(
        "classification.imitators.3",
        "the same, windows 1 to 3",
        "classification_training",
        "--what 3",
        "2.9 (thesis, GPU)",
    ),
    Entry(
        "classification.imitators.4",
        "the same, windows 1 to 4",
        "classification_training",
        "--what 4",
        "1.8 (thesis, GPU)",
    ),
    Entry(
        "classification.adam",
        "window 1, with Adam's step in both",
        "classification_training",
        "--what 1 --optimizer",
    ),
    Entry(
        "classification.sparse_gradients",
        "the same, of no embeddings but those a batch has",
        "classification_training",
        "--what 1 --optimizer --sparse-gradients",
    ),
    Entry(
        "classification.adv",
        "adversarial training over an LSTM classifier",
        "classification_training",
        "--what adv",
        "0.33 (thesis, GPU)",
    ),
    Entry(
        "classification.vat",
        "virtual adversarial training over it",
        "classification_training",
        "--what vat",
        "0.23 (thesis, GPU)",
        note=SPREAD,
    ),
    Entry(
        "bytenet_decoding",
        "steps 750 to 800 of `bytenet` over steps 0 to 50, steps/s, beam 5",
        "bytenet_decoding",
        "--threads 1",
    ),
    Entry(
        "bytenet_training",
        "`bytenet`, 22.6 million weights, over `transformer_iwslt_de_en`, 31.6, target "
        "characters/s of training",
        "bytenet_training",
        "--pairs 3 --threads 1 --tokens 400",
    ),
    Entry(
        "bytenet_training.fconv",
        "the same, over `fconv`, 6 + 6 layers of 512, 24.3 million weights",
        "bytenet_training",
        "--against fconv --pairs 3 --threads 1 --tokens 400",
        note="It has its weights in 12 wide layers, `bytenet` in 30 narrow ones.",
    ),
    Entry(
        "reconstruction_training",
        "digits with monolingual text over without, updates/s, beam 5",
        "reconstruction_training",
        "--threads 1 --steps 5",
        "0.2, in theory 0.1 (slides)",
    ),
)
