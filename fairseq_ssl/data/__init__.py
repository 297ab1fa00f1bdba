"""fairseq's data: folders it binarised, and datasets around its own."""
