"""The command ``fairseq-ssl``, one file a verb."""
