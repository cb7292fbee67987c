"""Which program computes what, where a product has several groups of outputs."""

from __future__ import annotations

from superopt.kernels.gemm.writer import Writer, indent


def _blocks(writer: Writer, group: int, cdiv: str, block: str) -> str:
    return f"{cdiv}({writer.dim(writer.problem.N(group))}, {block})"


def blocks(writer: Writer, group: int) -> str:
    """In a kernel: how many blocks of BN columns a group's output has."""
    return _blocks(writer, group, "tl.cdiv", "BN")


def programs(writer: Writer) -> str:
    """In a launch: how many blocks of BN columns all groups have together."""
    groups = range(len(writer.problem.groups))
    return " + ".join(_blocks(writer, g, "_ceil", 'constants["BN"]') for g in groups)


def corner(writer: Writer, group: int) -> str:
    """In a kernel: the first column of the block that is this ``program``'s in its group."""
    before = [blocks(writer, g) for g in range(group)]
    return f"(program - {' - '.join(before)}) * BN" if before else "program * BN"


def branch(writer: Writer, group: int, lines: list[str]) -> list[str]:
    """A group's lines, run by those values of ``program`` that are its own."""
    count = len(writer.problem.groups)
    if count == 1:
        return lines
    if group == count - 1:
        return ["else:", *indent(lines)]
    ends = " + ".join(blocks(writer, g) for g in range(group + 1))
    return [f"{'if' if group == 0 else 'elif'} program < {ends}:", *indent(lines)]
