"""A card's figures, read from a TOML file of ``costmodels/``; its README defines the fields."""

from __future__ import annotations

import importlib.resources
import logging
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import torch

from superopt.errors import CostModelError, OptionError

log = logging.getLogger("superopt.cost")

KINDS = ("measured", "published", "spec", "assumption")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
FIGURES = (
    *("arch", "sms", "launch_us", "min_us", "dram_gbs", "l2_bytes", "beta", "eta"),
    *("lanes_eta", "half_rate_tile", "l2_gbs"),
)
WHOLE = ("arch", "sms", "l2_bytes")
MAY_BE_ZERO = ("arch", "launch_us", "min_us", "l2_bytes", "beta", "half_rate_tile")
FRACTIONS = ("beta", "eta", "lanes_eta")
TABLES = ("simt_tflops", "library_tflops", "mma_tflops")
OPTIONAL = ("l2_gbs", "mma_tflops")
NEEDED_RATES = {"simt_tflops": ("f32", "f64")}

Rates = Mapping[str, float]


@dataclass(frozen=True)
class Card:
    """What a card can do; fields as in ``costmodels/README.md``, units in their names.

    ``l2_gbs`` is 0 where it is unknown. ``sources`` says where each figure comes from, by its
    field ("sms", "library_tflops.f16").
    """

    name: str
    kind: str
    devices: tuple[str, ...]
    arch: int
    sms: int
    launch_us: float
    min_us: float
    dram_gbs: float
    l2_bytes: int
    beta: float
    eta: float
    lanes_eta: float
    half_rate_tile: float
    simt_tflops: Rates = field(hash=False)
    library_tflops: Rates = field(hash=False)
    mma_tflops: Rates = field(default_factory=dict, hash=False)
    l2_gbs: float = 0.0
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False, compare=False)

    def rate(self, engine: str, dtype: torch.dtype, precision: str = "highest") -> float:
        """FLOP/s of an engine on operands of a dtype.

        ``precision`` is torch's for fp32 products: other than "highest" allows TF32. A dtype that
        the engine's table lacks runs on the ordinary lanes, where all but f64 compute in fp32.
        """
        lanes = self.simt_tflops["f64" if dtype == torch.float64 else "f32"]
        units = self.units(engine, dtype, precision)
        if engine == "mma":
            return 1e12 * (self.eta * units or self.lanes_eta * lanes)
        return 1e12 * (units or lanes)

    def units(self, engine: str, dtype: torch.dtype, precision: str = "highest") -> float:
        """TFLOP/s in the engine's table; 0 where it has none for the dtype."""
        tables = {"library": self.library_tflops, "mma": self.mma_tflops, "simt": {}}
        if engine not in tables:
            raise CostModelError(f"no engine named {engine!r}; known: {', '.join(tables)}")
        keys = [k for k, d in DTYPES.items() if d == dtype]
        if dtype == torch.float32 and precision != "highest":
            keys.insert(0, "tf32")
        return next((tables[engine][k] for k in keys if k in tables[engine]), 0.0)


def load_card(name_or_path: str | Path) -> Card:
    """The card of that name (see ``card_names``), or that a TOML file describes.

    Raises OptionError when there is no such card, CostModelError when its file is malformed.
    """
    files = _files()
    text = str(name_or_path)
    file: Traversable | None = files.get(text)
    if file is None and text.endswith(".toml"):
        file = Path(text)
    if file is None or not file.is_file():
        raise OptionError(
            f"no cost model {text!r}; known: {', '.join(sorted(files))}, or a path to a .toml file"
        )
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise CostModelError(f"{text}: not a TOML file: {e}") from e
    return _Reader(text, data).card()


def card_names() -> tuple[str, ...]:
    """Names of the cards that come with superopt, sorted."""
    return tuple(sorted(_files()))


def detect_card() -> str:
    """The name of the card in this machine; "cpu" without a GPU.

    A GPU that no file knows is taken for the one whose compute capability is nearest (the first by
    name among equals), with a note in the log.
    """
    if not torch.cuda.is_available():
        return "cpu"
    device = torch.cuda.get_device_name()
    cards = {n: load_card(n) for n in card_names()}
    for name, card in cards.items():
        if any(re.search(rf"\b{re.escape(word)}\b", device) for word in card.devices):
            return name
    major, minor = torch.cuda.get_device_capability()
    arch = 10 * major + minor
    gpus = [n for n, c in cards.items() if c.arch > 0]
    name = min(gpus, key=lambda n: (abs(cards[n].arch - arch), n))
    log.warning("no cost model for %s (sm_%d); using that of %s", device, arch, name)
    return name


def _files() -> dict[str, Traversable]:
    """Files by card name, from the package superopt.costmodels, else the folder beside superopt."""
    try:
        folder: Traversable = importlib.resources.files("superopt.costmodels")
    except ModuleNotFoundError:
        folder = Path(__file__).resolve().parents[2] / "costmodels"
    if not folder.is_dir():
        return {}
    found = [f for f in folder.iterdir() if f.name.endswith(".toml")]
    return {f.name.removesuffix(".toml"): f for f in sorted(found, key=lambda f: f.name)}


class _Reader:
    """Checks a file's fields one by one; every error names the file and the field."""

    def __init__(self, file: str, data: dict[str, Any]) -> None:
        self.file = file
        self.data = data
        self.sources: dict[str, str] = {}

    def fail(self, where: str, why: str) -> CostModelError:
        return CostModelError(f"{self.file}: {where}: {why}")

    def card(self) -> Card:
        fields = ("name", "kind", "devices", *FIGURES, *TABLES)
        self.check_keys(self.data, fields, [f for f in fields if f not in OPTIONAL], "")
        given = [f for f in FIGURES if f in self.data]
        figures: dict[str, Any] = {f: self.figure(f, f, self.data[f]) for f in given}
        tables: dict[str, Any] = {t: self.table(t) for t in TABLES if t in self.data}
        return Card(
            name=self.text("name"),
            kind=self.kind(),
            devices=self.words("devices"),
            sources=self.sources,
            **figures,
            **tables,
        )

    def check_keys(self, data: Any, valid: Any, needed: Any, where: str) -> None:
        for key in data:
            if key not in valid:
                raise self.fail(where + key, f"unknown field; valid: {', '.join(valid)}")
        for key in needed:
            if key not in data:
                raise self.fail(where + key, f"missing field; needed: {', '.join(needed)}")

    def kind(self) -> str:
        if self.data["kind"] not in KINDS:
            raise self.fail("kind", f"{self.data['kind']!r} is none of {', '.join(KINDS)}")
        return self.data["kind"]

    def text(self, key: str) -> str:
        value = self.data[key]
        if not isinstance(value, str):
            raise self.fail(key, "a string is needed")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        value = self.data[key]
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.fail(key, "strings are needed")
        return tuple(value)

    def table(self, name: str) -> dict[str, float]:
        rates = self.data[name]
        if not isinstance(rates, dict):
            raise self.fail(name, "a table of rates by dtype is needed")
        self.check_keys(rates, (*DTYPES, "tf32"), NEEDED_RATES.get(name, ()), f"{name}.")
        return {d: self.figure(name, f"{name}.{d}", rates[d]) for d in rates}

    def figure(self, field_: str, where: str, entry: Any) -> Any:
        if not isinstance(entry, dict) or set(entry) != {"value", "source"}:
            raise self.fail(where, 'a figure is { value = …, source = "…" }')
        value, source = entry["value"], entry["source"]
        if not isinstance(source, str) or not source.strip():
            raise self.fail(where, "its source is empty")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise self.fail(where, f"{value!r} is not a finite number")
        if field_ in WHOLE and not isinstance(value, int):
            raise self.fail(where, f"{value!r} is not a whole number")
        if value < 0 or (value == 0 and field_ not in MAY_BE_ZERO):
            raise self.fail(where, f"{value!r} is not {'≥' if field_ in MAY_BE_ZERO else '>'} 0")
        if field_ in FRACTIONS and value > 1:
            raise self.fail(where, f"{value!r} is a share and may not exceed 1")
        self.sources[where] = source
        return value
