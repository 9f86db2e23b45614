"""The only code that knows CSV or data frames: reading, encoding, decoding, checking and writing tables."""
