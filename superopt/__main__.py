"""The command ``superopt`` (or ``python -m superopt``): doctor, demo, rules, cards."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from superopt import __version__

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100  # columns; fewer on a narrower terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 when it found nothing wrong."""
    args = _parser().parse_args(argv)
    from superopt.errors import SuperoptError

    command: Callable[[Console, argparse.Namespace], int] = args.run
    try:
        return command(_console(), args)
    except SuperoptError as e:
        print(f"superopt: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="superopt",
        description="An e-graph superoptimizer for PyTorch: a backend of torch.compile.",
    )
    parser.add_argument("--version", action="version", version=f"superopt {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    doctor = commands.add_parser("doctor", help="what works on this machine, and what does not")
    doctor.set_defaults(run=_doctor)

    demo = commands.add_parser("demo", help="a sentence encoder and a Llama block, compared")
    demo.add_argument("job", nargs="?", choices=("encoder", "llama"), help="only this one")
    demo.set_defaults(run=_demo)

    rules = commands.add_parser("rules", help="the rewrite laws")
    rules.add_argument("action", nargs="?", default="list", choices=("list",), help="list them")
    rules.set_defaults(run=_rules)

    cards = commands.add_parser("cards", help="the cost models, and the one in use here")
    cards.set_defaults(run=_cards)
    return parser


def _console() -> Console:
    from rich.console import Console

    terminal = Console(highlight=False)
    width = min(terminal.width, WIDTH) if terminal.is_terminal else WIDTH
    return Console(highlight=False, width=width)


def _doctor(console: Console, args: argparse.Namespace) -> int:
    from superopt.doctor import report

    return 0 if report(console) else 1


def _demo(console: Console, args: argparse.Namespace) -> int:
    from superopt.demo import JOBS, run

    return 0 if run(console, (args.job,) if args.job else JOBS) else 1


def _rules(console: Console, args: argparse.Namespace) -> int:
    from superopt.shelf import load_rules

    rules = load_rules(finite_only=True)
    wide = max(len(r.name) for r in rules)
    for r in rules:
        line = f"{r.name:<{wide}}  {r.group:<11}  {r.numeric.value:<16}  {r.where}"
        console.print(line, markup=False, soft_wrap=True)
        console.print("    " + r.law.split("\n")[0], markup=False, soft_wrap=True, style="dim")
    console.print(f"{len(rules)} laws; those marked finite_only are off unless asked for")
    return 0


def _cards(console: Console, args: argparse.Namespace) -> int:
    from rich.table import Table

    from superopt.cost import card_names, detect_card, load_card

    table = Table(title="cost models", title_justify="left")
    for head in ("name", "card", "figures are"):
        table.add_column(head)
    for head in ("arch", "SMs", "GB/s"):
        table.add_column(head, justify="right")
    table.add_column("")
    here = detect_card()
    for name in card_names():
        c = load_card(name)
        figures = (str(c.arch or "–"), str(c.sms), f"{c.dram_gbs:g}")
        table.add_row(name, c.name, c.kind, *figures, "in use here" if name == here else "")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
