"""Numbers in, the same numbers with noise out: each mechanism with the theorem that it rests on."""
