"""Mutated files against every reader: each gives a result or an error of ours, soon and in little memory."""
