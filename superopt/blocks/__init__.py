"""Repeated blocks: found, solved once, replayed."""

from superopt.blocks.split import Block, split, stitch

__all__ = ["Block", "split", "stitch"]
