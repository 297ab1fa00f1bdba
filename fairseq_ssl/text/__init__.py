"""Lines in, lines out: tools on text that need neither torch nor fairseq.

Reading and writing: `lines`, `word_counts` (dict.txt), `whole_file`, `growing_files`. Large files
in pieces: `byte_blocks` of one, `row_blocks` of several side by side. Noise, filters, edits and
subwords have folders of their own; `settings` reads the options of noises and filters.
"""
