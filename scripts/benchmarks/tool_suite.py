"""The benchmarks of tools for text and scores, in the order of the table in README.md."""

from __future__ import annotations

from entry import GROWTH, PEERS, Entry

CORPUS = "--source SOURCE --target TARGET --opusfilter OPUSFILTER"
PARTS = "Two independent commands are 1.8 times as fast as one on this machine."
FREED = "The arrays take 15.3 bytes per pair, the process 1.5 bytes more. fairseq takes 40 bytes."
LEARNERS = "--checkout CHECKOUT --source SOURCE --target TARGET --pairs 3"
M2SCORER = "--official M2SCORER --python PYTHON --system SYSTEM --gold GOLD"
EXPONENT = "exponent of the CPU time:"
ERRANT = "--metric errant --system SYSTEM --source SOURCE --gold GOLD --model PIPELINE"
STARTED = "Scores take half of our time, Python and numpy a quarter, other imports a sixth."

TOOLS = (
    Entry(
        "noise.direct",
        "direct noise over the same noise in a Python loop, tokens per second of CPU time",
        "noise_offline",
        note="Copying words takes a third of our time, random numbers and words a fifth.",
    ),
    Entry(
        "noise.shuffle",
        "shuffle noise over the same noise by numpy calls for each line, tokens per second of CPU "
        "time",
        "noise_offline",
        "--noise shuffle",
    ),
    Entry(
        "noise.direct.processes",
        "`noise --method direct`, two processes over one process",
        "noise_offline",
        "--processes --sentences 2000000",
        note=PARTS,
    ),
    Entry(
        "noise.shuffle.processes",
        "`noise --method shuffle`, two processes over one process",
        "noise_offline",
        "--processes --noise shuffle --sentences 1000000",
        note=PARTS,
    ),
    Entry(
        "noise.nlpaug",
        "`noise --method characters` over KeyboardAug of nlpaug 1.1.11, one typo per sentence, "
        "lines per second of CPU time",
        "noise_offline",
        "--peer nlpaug --python PYTHON --text TEXT --sentences 100000 --pairs 3",
        section=PEERS,
    ),
    Entry(
        "noise.opustrainer",
        "`noise --method characters` over TypoModifier of OpusTrainer 0.5, lines per second of CPU "
        "time",
        "noise_offline",
        "--peer opustrainer --python PYTHON --text TEXT --sentences 200000 --pairs 3",
        note="Apart from start-up, typos take a third of our time, and the random number of each "
        "character a quarter. OpusTrainer draws nine numbers per sentence.",
        section=PEERS,
    ),
    Entry(
        "back_translation.translator",
        "back-translation with CTranslate2 (int8), loaded, over `Translator.translate_batch` on "
        "sorted sentences, sentences per second of CPU time",
        "back_translation",
        "--against translator --arch transformer_iwslt_de_en --sentences 400 --compute-type int8 "
        "--threads 1 --pairs 3",
        section=PEERS,
    ),
    Entry(
        "filter_corpus",
        "`filter` by length and ratio over OpusFilter 3.3.1, one million pairs, pairs per second "
        "of CPU time",
        "filter_corpus",
        f"{CORPUS} --pairs 3",
        section=PEERS,
    ),
    Entry(
        "filter_corpus.language",
        "`filter` by length, ratio and language over OpusFilter 3.3.1, 50,000 pairs, pairs per "
        "second of CPU time",
        "filter_corpus",
        f"{CORPUS} --what language --lines 50000 --pairs 3",
        section=PEERS,
    ),
    Entry(
        "denoising_items.noising",
        "data set of `denoising_pretraining` over fairseq's NoisingDataset, sentences/s",
        "denoising_items",
        "--against noising --threads 1",
    ),
    Entry(
        "denoising_items.denoising",
        "data set of `denoising_pretraining` over fairseq's DenoisingDataset, sentences/s",
        "denoising_items",
        "--against denoising --threads 1",
    ),
    Entry(
        "edits_extraction",
        "PIE's edit labels over an alignment with a full cost table for each pair, pairs/s",
        "edits_extraction",
    ),
    Entry(
        "edits_extraction.processes",
        "PIE's edit labels, two processes over one process",
        "edits_extraction",
        "--processes --pairs 2 --sentences 3000",
    ),
    Entry(
        "edits_extraction.pie",
        "PIE's edit labels over the authors' alignment without labels, W&I and FCE, pairs per "
        "second of CPU time",
        "edits_extraction",
        f"--peer pie {LEARNERS} --sentences 2000",
        note="Cost tables take half of our time, 0.4 µs per cell. PIE's table has more cells.",
        section=PEERS,
    ),
    Entry(
        "edits_extraction.gector",
        "edit labels with all groups of transforms over GECToR's preprocess_data, W&I and FCE, "
        "pairs per second of CPU time",
        "edits_extraction",
        f"--peer gector {LEARNERS} --sentences 50000",
        note="Our cost tables take half of the time. GECToR's difflib computes no cost table.",
        section=PEERS,
    ),
    Entry(
        "mixing_memory",
        "batches of an epoch with a twentieth of the pairs, splits concatenated by fairseq over "
        "mixed splits, peak memory",
        "mixing_memory",
        "--epoch-pairs 300000 --pairs 1",
    ),
    Entry(
        "mixing_memory.million",
        "mixed splits in two epochs of 1 million pairs, 16 bytes per pair over their peak memory",
        "mixing_memory",
        "--limit 16 --epochs 2 --sentences 1000000 --epoch-pairs 1000000 --pairs 3",
        note=FREED,
    ),
    Entry(
        "mixing_memory.ten",
        "mixed splits in two epochs of 10 million pairs, 16 bytes per pair over their peak memory",
        "mixing_memory",
        "--limit 16 --epochs 2 --sentences 10000000 --epoch-pairs 10000000 --pairs 3",
        note=FREED,
    ),
    Entry(
        "m2_scorer",
        "`score m2` over the authors' m2scorer in Python 2.7, CoNLL-2014 test set, sentences per "
        "second of CPU time, output of PIE",
        "edit_scorers",
        f"{M2SCORER} --pairs 3",
        note=STARTED,
        section=PEERS,
    ),
    Entry(
        "m2_scorer.rewriting",
        "`score m2` over the authors' m2scorer, output of Riken-Tohoku, which rewrites more, "
        "sentences per second of CPU time",
        "edit_scorers",
        f"{M2SCORER} --pairs 1",
        section=PEERS,
    ),
    Entry(
        "errant_scorer",
        "`score errant` over errant_parallel and errant_compare of errant 3.0.2, BEA-2019 "
        "development set, sentences per second of CPU time, half of the sentences changed",
        "edit_scorers",
        f"{ERRANT} --pairs 3",
        section=PEERS,
    ),
    Entry(
        "errant_scorer.references",
        "`score errant` over errant_parallel and errant_compare, BEA-2019 development set, gold "
        "corrections as the output, two thirds of the sentences changed",
        "edit_scorers",
        f"{ERRANT} --pairs 1",
        section=PEERS,
    ),
    Entry(
        "errant_scorer.processes",
        "`score errant`, BEA-2019 development set, two processes over one process",
        "edit_scorers",
        f"{ERRANT} --processes --pairs 3",
        note="Start-up takes a sixth of the time of one process. " + PARTS,
    ),
    Entry(
        "rerank_search",
        "grid search of weights, points from n-gram statistics over scoring the text at each "
        "point, points/s",
        "rerank_search",
    ),
    Entry(
        "start_up.register",
        "imports of `back-translate` and `correct` over plain imports of fairseq and the plug-in, "
        "starts per second of CPU time",
        "start_up",
        note="torch takes half of our time, fairseq's modules a quarter, the plug-in a seventh.",
    ),
    Entry(
        "start_up.floor",
        "imports of torch, fairseq and the plug-in over torch alone, starts per second of CPU time",
        "start_up",
        "--what floor",
    ),
    Entry(
        "growth.noise",
        f"{EXPONENT} `noise --method characters`, 100,000 to 1 million lines, "
        "50 MiB of memory for any length",
        "growth",
        "--what noise --sizes 100000 300000 1000000 --length 20 --pairs 1",
        section=GROWTH,
    ),
    Entry(
        "growth.filter",
        f"{EXPONENT} `filter`, 100,000 to 1 million pairs, 59 MiB for any length",
        "growth",
        "--what filter --sizes 100000 300000 1000000 --length 20 --pairs 1",
        section=GROWTH,
    ),
    Entry(
        "growth.edits",
        f"{EXPONENT} `edits label`, 100,000 to 1 million lines, 40 MiB for any length",
        "growth",
        "--what edits --sizes 100000 300000 1000000 --length 20 --pairs 3",
        section=GROWTH,
    ),
    Entry(
        "growth.m2",
        f"{EXPONENT} `score m2`, 10,000 to 300,000 lines, 47 to 442 MiB",
        "growth",
        "--what m2 --sizes 10000 100000 300000 --length 20 --pairs 3",
        note="Without garbage collection, a line takes 60 µs for 10,000 and for 100,000 lines.",
        section=GROWTH,
    ),
    Entry(
        "growth.errant",
        f"{EXPONENT} `score errant --untyped`, 10,000 to 100,000 lines, 158 to 523 MiB",
        "growth",
        "--what errant --sizes 10000 30000 100000 --length 20 --pairs 1",
        section=GROWTH,
    ),
    Entry(
        "growth.gleu",
        f"{EXPONENT} `score gleu`, 10,000 to 100,000 lines, 39 to 101 MiB",
        "growth",
        "--what gleu --sizes 10000 30000 100000 --length 20 --pairs 1",
        section=GROWTH,
    ),
    Entry(
        "growth.correct",
        f"{EXPONENT} `correct` with a tiny edit tagger, 1,000 to 10,000 lines",
        "growth",
        "--what correct --sizes 1000 3000 10000 --length 20 --pairs 1",
        section=GROWTH,
    ),
    Entry(
        "growth.rerank",
        f"{EXPONENT} `rerank features`, 10,000 to 100,000 candidates, 324 to 339 MiB",
        "growth",
        "--what rerank --sizes 10000 30000 100000 --length 20 --pairs 1",
        section=GROWTH,
    ),
    Entry(
        "growth.mixing",
        f"{EXPONENT} batches of mixed splits, 1 to 10 million pairs, 10 to 12 bytes per pair",
        "growth",
        "--what mixing --sizes 1000000 3000000 10000000 --length 20 --pairs 3",
        note="Lengths are read in permuted order, in 80 ns per pair for a million pairs (16 MB), "
        "and in 280 ns for three million (48 MB, with a cache of 32 MiB).",
        section=GROWTH,
    ),
)
