"""One page of what scores, decodings and analyses have written: found, put together, drawn."""
