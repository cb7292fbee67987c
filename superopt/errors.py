"""What can go wrong, by stage.

Every error carries the stage it happened in, so that the one warning a user sees can name it.
"""


class SuperoptError(Exception):
    """A stage of superopt failed; the message says what, where and what to do about it."""

    stage = "superopt"


class OptionError(SuperoptError, ValueError):
    """An option, mode, rule or cost model that does not exist, or a value out of range."""

    stage = "options"


class LiftError(SuperoptError):
    """The FX graph holds something that cannot even become an opaque operator."""

    stage = "lift"


class RuleError(SuperoptError):
    """A rule is malformed, or what it produced has another type than what it replaces."""

    stage = "rules"


class SaturateError(SuperoptError):
    """egglog refused a command or panicked; the e-graph was thrown away."""

    stage = "saturate"


class ExtractError(SuperoptError):
    """No program can be extracted: a root has no finite, acyclic choice."""

    stage = "extract"


class CostModelError(SuperoptError, ValueError):
    """A cost-model file lacks a figure, or holds one that cannot be."""

    stage = "cost"


class LowerError(SuperoptError):
    """A generated kernel could not be written or compiled."""

    stage = "lower"


class RunError(SuperoptError):
    """A compiled plan failed while it ran."""

    stage = "run"
