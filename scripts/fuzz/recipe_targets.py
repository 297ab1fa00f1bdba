"""Fuzz targets of the scripts of the recipes that read published data."""

from __future__ import annotations

from hashlib import sha1

from targets import LABELED, M2, TEXT, TWO_LINES, Target

COMMON, GEC, MEIN = "examples/common", "examples/gec_pseudo_data", "examples/mein"
ARCHIVES = "examples/poda/data/archives.py"
STORY = b"It rained , they said\n\n@highlight\n\nIt rained\n"
REVIEW = b"A good film.<br /><br />It&#39;s long (and dull).\n"
REVIEWS = {
    f"folder/{part}/{name}": REVIEW.replace(b"good", part[-3:].encode()) + name.encode()
    for part, names in {
        "train/pos": ("0_9.txt", "12499_8.txt"),
        "train/neg": ("0_1.txt", "12499_2.txt"),
        "train/unsup": ("0_0.txt", "1_0.txt"),
        "test/pos": ("0_9.txt",),
        "test/neg": ("0_1.txt",),
    }.items()
    for name in names
}
DOCUMENTS = b".I %d\n.W\nstock price\nrise\n\n.I %d\n.W\nbank\n"
TOPICS = b"C11 1 1\nC12 2 1\nC11 3 1\nC12 4 1\nC11 5 1\nC11 6 1\nC12 6 1\n"
HIERARCHY = (
    b"parent: Root child: CCAT child-description: CORPORATE\n"
    b"parent: CCAT child: C11 child-description: STRATEGY\n"
    b"parent: CCAT child: C12 child-description: LEGAL\n"
)
RCV1 = {
    "folder/lyrl2004_tokens_train.dat": DOCUMENTS % (1, 2),
    **{
        f"folder/lyrl2004_tokens_test_pt{part}.dat": DOCUMENTS % (3 + 2 * part, 4 + 2 * part)
        for part in range(4)
    },
    "folder/rcv1-v2.topics.qrels": TOPICS,
    "folder/rcv1.topics.hier.orig": HIERARCHY,
}
SMALL_M2 = b"".join(
    b"S Go cat number %d !\nA 0 1|||R|||Come|||REQUIRED|||-NONE-|||0\n\n" % n for n in range(4)
)
RECIPE_TARGETS = {
    "learner_text.pairs": Target(
        "pairs {A.train.m2} {fce.m2} --held-out dev={text} --size 2 -o {out}",
        {"A.train.m2": SMALL_M2, "fce.m2": M2, "text": TWO_LINES},
        program=f"{COMMON}/learner_text.py",
    ),
    "learner_text.monolingual": Target(
        "monolingual {text} --held-out dev={one} --training {two} --size 1 --lines 9 -o {out}",
        {"text": TEXT, "one": TWO_LINES, "two": TWO_LINES},
        ("--size", "--lines"),
        program=f"{COMMON}/learner_text.py",
    ),
    "learner_text.report": Target(
        "report {folder}/train {folder}/films --held-out dev={text} -o {out}",
        {
            "folder/train.counts.json": b'{"read": 3, "held_out": 1, "removed": {"empty": 0}}',
            "folder/train.src": b"a cat\na dog\n",
            "folder/train.trg": b"the cat\nthe dog\n",
            "folder/films.counts.json": b'{"read": 3, "held_out": 1, "removed": {"dev": 1}}',
            "folder/films.txt": b"a film\n",
            "text": TWO_LINES,
        },
        program=f"{COMMON}/learner_text.py",
    ),
    "learner_text.sentences": Target(
        "sentences {folder}",
        {"folder/1_2.txt": REVIEW, "folder/2_3.txt": TEXT},
        program=f"{COMMON}/learner_text.py",
    ),
    "words": Target(
        "{klk.train} {out} {out}2",
        {"klk.train": b'a : b\n0 : c\n\n"0" : d\n'},
        program=f"{COMMON}/words.py",
    ),
    "words.test": Target(
        "{klk.test} {out} {out}2", {"klk.test": b"ab\tac\nd\td\n"}, program=f"{COMMON}/words.py"
    ),
    "archives.entries": Target(
        "lang8 {entries.train} -o {out}",
        {"entries.train": b"1\t2\thttp://x\t0\tI goes .\tI go .\n\n0\t2\thttp://x\t1\tYes .\n"},
        program=ARCHIVES,
    ),
    "archives.journals": Target(
        "lang8 {one.dat} -o {out}",
        {"one.dat": b'["1","2","English","Spanish",["I goes."],[["I [f-red]go[/f-red]."]]]\n'},
        program=ARCHIVES,
    ),
    "archives.tagged": Target(
        "tagged {one} {two} -o {out}",
        {"one": b"it rained .\n", "two": b"<t> it rained . </t> <t> no . </t>\n"},
        program=ARCHIVES,
    ),
    "archives.stories": Target(
        "stories {folder} --urls {urls} -o {out}",
        {"urls": b"x\n", f"folder/{sha1(b'x').hexdigest()}.story": STORY},
        program=ARCHIVES,
    ),
    "archives.paragraphs": Target(
        "paragraphs {folder}",
        {"folder/AA/wiki_00": b'<doc id="1" title="Owl">\nOwl\n\nIt is &lt;a bird.\n</doc>\n'},
        program=ARCHIVES,
    ),
    "corpora.pairs": Target(
        "pairs {one.m2} --to {out}", {"one.m2": M2}, (), ("--held-out",), f"{GEC}/corpora.py"
    ),
    "corpora.split": Target(
        "split {one} {two} --to {out} --genuine 2 --held-out 2",
        {"one": TEXT, "two": TEXT},
        ("--genuine", "--held-out"),
        program=f"{GEC}/corpora.py",
    ),
    "published_sets.imdb": Target(
        "imdb {folder} {out}", REVIEWS, program=f"{MEIN}/published_sets.py"
    ),
    "published_sets.sentences": Target(
        "sentences {folder} -o {out} --held-out {text}",
        {**REVIEWS, "text": LABELED[:60]},
        program=f"{MEIN}/published_sets.py",
    ),
    "published_sets.elec": Target(
        "elec {folder} {out} --stop-words {stop}",
        {
            "folder/elec-25k-train.txt.tok": b"a good phone\na bad one\n",
            "folder/elec-25k-train.cat": b"2\n1\n",
            "folder/elec-test.txt.tok": b"a good one\nit broke\n",
            "folder/elec-test.cat": b"2\n1\n",
            "folder/elec-25k-unlab00.txt.tok": TEXT,
            "stop": b"the\na\n",
        },
        program=f"{MEIN}/published_sets.py",
    ),
    "published_sets.rcv1": Target(
        "rcv1 {folder} {out} --test-size 2",
        RCV1,
        ("--test-size", "--seed"),
        program=f"{MEIN}/published_sets.py",
    ),
    "published_sets.amazon": Target(
        "amazon {one.json.gz} {two} -o {out}",
        {
            "one.json.gz": b'{"reviewText": "It works."}\n{"text": "a\\nb"}\n',
            "two": b"product/title: x\nreview/text: A good one\n",
        },
        program=f"{MEIN}/published_sets.py",
    ),
}
