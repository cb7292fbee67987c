"""Workloads for the model benchmark: name -> function that makes (module, inputs) on the GPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BF16 = torch.bfloat16


def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
    return weight * h.to(x.dtype)


class Layer(nn.Module):
    """A Llama layer with grouped queries and, optionally, a cache that is concatenated to."""

    def __init__(self, dim: int = 4096, heads: int = 32, groups: int = 8, inner: int = 14336):
        super().__init__()
        self.width = dim // heads
        kv = groups * self.width
        self.n1, self.n2 = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))
        self.q, self.o = nn.Linear(dim, dim, False), nn.Linear(dim, dim, False)
        self.k, self.v = nn.Linear(dim, kv, False), nn.Linear(dim, kv, False)
        self.gate, self.up = nn.Linear(dim, inner, False), nn.Linear(dim, inner, False)
        self.down = nn.Linear(inner, dim, False)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, x, cos, sin, keys=None, values=None):  # type: ignore[no-untyped-def]
        b, t, d = x.shape
        n = rms(x, self.n1)
        q, k, v = (
            w(n).view(b, t, -1, self.width).transpose(1, 2) for w in (self.q, self.k, self.v)
        )
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        if keys is not None:
            k, v = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=keys is None, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        n = rms(x, self.n2)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class NormLinear(nn.Module):
    def __init__(self, dim: int = 4096, out: int = 6144):
        super().__init__()
        self.weight, self.out = nn.Parameter(torch.ones(dim)), nn.Linear(dim, out, False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(rms(x, self.weight))


class Gated(nn.Module):
    def __init__(self, dim: int = 4096, inner: int = 4096):
        super().__init__()
        self.gate, self.up = nn.Linear(dim, inner, False), nn.Linear(dim, inner, False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


class LoRA(nn.Module):
    def __init__(self, dim: int = 4096, rank: int = 16):
        super().__init__()
        self.base = nn.Linear(dim, dim, False)
        self.a, self.b = nn.Linear(dim, rank, False), nn.Linear(rank, dim, False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(x)) * 2.0


class Encoder(nn.Module):
    """A BERT-like layer of all-MiniLM's sizes."""

    def __init__(self, dim: int = 384, heads: int = 12, inner: int = 1536):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, inner), nn.Linear(inner, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (
            w(x).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.q, self.k, self.v)
        )
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = self.n1(x + self.o(a))
        return self.n2(x + self.down(F.gelu(self.up(x))))


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=BF16)


def make(module: nn.Module) -> nn.Module:
    return module.cuda().to(BF16).eval()


def layer(b: int, t: int, cached: int, **sizes: int):  # type: ignore[no-untyped-def]
    model = make(Layer(**sizes))
    inputs = [rows(b, t, 4096), rows(t, model.width), rows(t, model.width)]
    if cached:
        groups = model.k.out_features // model.width
        inputs += [rows(b, groups, cached, model.width) for _ in range(2)]
    return model, inputs


WORKLOADS = {
    "Llama-3-8B layer, decode, batch 1, 4096 cached": lambda: layer(1, 1, 4096),
    "Llama-3-8B layer, decode, batch 16, 4096 cached": lambda: layer(16, 1, 4096),
    "Llama-3-8B layer, prefill 2048": lambda: layer(1, 2048, 0),
    "Llama-2-7b layer, 128 tokens": lambda: layer(1, 128, 0, groups=32, inner=11008),
    "RMSNorm + linear, 2 rows": lambda: (make(NormLinear()), [rows(2, 4096)]),
    "gated MLP 8 x 4096 x 4096": lambda: (make(Gated()), [rows(8, 4096)]),
    "LoRA 4096, rank 16, 1 row": lambda: (make(LoRA()), [rows(1, 4096)]),
    "LoRA 4096, rank 16, 2048 rows": lambda: (make(LoRA()), [rows(2048, 4096)]),
    "MiniLM layer, 8 x 128 tokens": lambda: (make(Encoder()), [rows(8, 128, 384)]),
}
