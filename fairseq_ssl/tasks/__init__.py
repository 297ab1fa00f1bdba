"""Tasks registered with fairseq, which load data and build models and generators."""
