"""superopt: an e-graph superoptimizer for PyTorch.

    torch.compile(model, backend="superopt")

The pipeline, in order: lift (FX to terms) -> blocks (repeated regions) -> saturate (e-graph) ->
extract (cheapest program) -> schedule (fused operations) -> lower and kernels (Triton source) ->
run. ``superopt.pipeline.search`` is the search in one function, ``superopt.compile`` the rest.
"""

__version__ = "0.1.0"
__all__ = ["__version__", "records"]


def records():  # type: ignore[no-untyped-def]
    """What was compiled in this process: one ``superopt.session.Record`` a graph."""
    from superopt.session import records

    return records()
