"""`superopt demo`: a sentence encoder and a Llama block, compiled and compared."""
