"""The address of the repository, and notes on the extras. pyproject.toml declares the rest.

`pip install fairseq-ssl` installs the tools for text and files: noise, filter, score, edits,
tokenize, subwords, rerank, report and others. The extras add:

| extra       | for                                                                           |
| ----------- | ----------------------------------------------------------------------------- |
| train       | training and decoding: torch and fairseq, which pip builds in three minutes   |
| bert        | BERT folders and safetensors; needs train                                     |
| correct     | edit taggers in ONNX format without torch                                     |
| ctranslate2 | back-translation by CTranslate2; export to it needs train                     |
| gec         | ERRANT's edit types, with spaCy                                               |
| noise       | verb forms, spell checkers and learner errors                                 |
| onnx        | export of edit taggers to ONNX; needs train                                   |
| plot        | figures                                                                       |
| ray         | jobs on a Ray cluster                                                         |
| rouge       | ROUGE                                                                         |
| scale       | s3:// and other stores, .zst files, near-duplicates                           |
| serve       | a server that corrects text                                                   |
| wmt         | langid, filter files, learned filters, word vectors, subword-nmt, MeCab       |
| all         | all of the above                                                              |
| docs        | the site, by scripts/docs.sh, and examples/notebooks                          |
| dev         | all, and what scripts/test.sh runs                                            |
| scale-tests | scale, and what its tests need                                                |

scripts/setup.sh installs dev without scale, and .ci/run adds scale-tests.

The extra train has `fairseq-fixed`, fairseq's main branch with fixes for Python 3.11, which is
imported as fairseq. pip builds it in an isolated environment with a torch of its own;
scripts/setup.sh avoids the second download. The stock release, fairseq 0.12.2 on Python 3.10, works
as well: install it and torch by hand in place of the extra train.
"""

REPOSITORY = ""
"""Address of the repository, such as ``https://github.com/OWNER/NAME``. If it is set, the metadata
of the package and the site link to it."""
BRANCH = "main"
"""Branch that the links to edit a page of the site lead to."""


def project_urls() -> dict[str, str]:
    """Return the links of the package's metadata by label."""
    if not REPOSITORY:
        return {}
    return {
        "Repository": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/{BRANCH}/CHANGELOG.md",
    }


if __name__ == "__main__":  # not in scripts/docs/hook.py, which reads the address
    from setuptools import setup

    setup(project_urls=project_urls())
