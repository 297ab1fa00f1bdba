"""fairseq's data: folders that it binarized, and datasets that wrap its own.

Noise in training: `noised_dataset` asks `id_noise`, which cuts ids into words by `spans`,
`word_boundaries` and `lexicon`. Edits: `edit_dataset`. Mixed and tagged data: `mixing`. Both
directions at once: `accompanied_pairs`, `candidates`. Classifiers: `classification_folder`,
`two_view_dataset`, `teacher_labels`. Words outside the dictionary: `open_dictionary`.
"""
