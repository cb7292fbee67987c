"""Small models that between them hold what users write; none is known to the compiler.

Each entry is a function of (device, dtype) that returns a module and its inputs.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """As Llama writes it: in fp32, cast back, then the weight."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)
        self.eps = eps

    def forward(self, x):
        h = x.to(torch.promote_types(x.dtype, torch.float32))
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.to(x.dtype)


class GatedMLP(nn.Module):
    def __init__(self, dim, inner, act=F.silu, bias=False):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.gate, self.up = nn.Linear(dim, inner, bias), nn.Linear(dim, inner, bias)
        self.down, self.act = nn.Linear(inner, dim, bias), act

    def forward(self, x):
        n = self.norm(x)
        return x + self.down(self.act(self.gate(n)) * self.up(n))


class LlamaLayer(nn.Module):
    """Grouped-query attention with rotary positions, then a gated MLP."""

    def __init__(self, dim=96, heads=6, groups=2, inner=160):
        super().__init__()
        self.norm, self.head = RMSNorm(dim), dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, groups * self.head, bias=False)
        self.v = nn.Linear(dim, groups * self.head, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.mlp = GatedMLP(dim, inner)

    def rotate(self, x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        n = self.norm(x)
        q, k, v = (w(n).view(b, t, -1, self.head).transpose(1, 2) for w in (self.q, self.k, self.v))
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.mlp(x + self.o(a.transpose(1, 2).reshape(b, t, d)))


class GPTLayer(nn.Module):
    """LayerNorm, biased projections from one weight, attention written out, GELU."""

    def __init__(self, dim=80, heads=5):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).split(d, -1)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        mask = torch.ones(t, t, device=x.device, dtype=torch.bool).tril()
        a = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class LoRA(nn.Module):
    def __init__(self, dim=96, rank=8):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.a, self.b = nn.Linear(dim, rank, bias=False), nn.Linear(rank, dim, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * 2.0


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, groups=2)
        self.bn, self.out = nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        h = F.relu(self.bn(self.c1(x)))
        h = F.max_pool2d(F.hardswish(self.c2(h)), 2)
        return self.out(h.mean((2, 3)))


class Embedder(nn.Module):
    """Indices in, several outputs, one of them an input's view."""

    def __init__(self, words=50, dim=48):
        super().__init__()
        self.table, self.norm = nn.Embedding(words, dim), nn.LayerNorm(dim)

    def forward(self, ids):
        e = self.norm(self.table(ids))
        pooled = F.normalize(e.mean(1), dim=-1)
        return e, pooled, pooled @ pooled.T, ids[:, :2]


class Mixture(nn.Module):
    """Softmax gating over experts, top-k and scatter: mostly not modelled."""

    def __init__(self, dim=32, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(GatedMLP(dim, 2 * dim, F.gelu) for _ in range(experts))

    def forward(self, x):
        weight, index = self.gate(x).softmax(-1).topk(2, -1)
        mask = torch.zeros_like(self.gate(x)).scatter(-1, index, weight)
        outs = torch.stack([e(x) for e in self.experts], -1)
        return (outs * mask.unsqueeze(-2)).sum(-1)


class Cache(nn.Module):
    """Writes a key into a buffer, in place, as a decoder's cache does."""

    def __init__(self, dim=32, length=16):
        super().__init__()
        self.k = nn.Linear(dim, dim, bias=False)
        self.register_buffer("keys", torch.zeros(length, dim))

    def forward(self, x, position):
        self.keys.index_copy_(0, position, self.k(x))
        return (x @ self.keys.T).softmax(-1) @ self.keys


def _rows(*shape, device, dtype):
    return torch.randn(*shape, device=device, dtype=dtype)


def _rotary(tokens, width, device, dtype):
    t = torch.outer(torch.arange(tokens), 0.1 ** torch.arange(width // 2))
    t = torch.cat((t, t), -1)
    return t.cos().to(device, dtype), t.sin().to(device, dtype)


def zoo(device, dtype):
    """name -> (module, inputs), in eval mode and seeded."""
    torch.manual_seed(0)

    def rows(*shape):
        return _rows(*shape, device=device, dtype=dtype)

    entries = {
        "gated_mlp_1": (GatedMLP(128, 200), (rows(1, 128),)),
        "gated_mlp_17": (GatedMLP(96, 100, F.gelu, True), (rows(17, 96),)),
        "gated_mlp_300": (GatedMLP(128, 256), (rows(3, 100, 128),)),
        "llama_decode": (LlamaLayer(), (rows(1, 1, 96), *_rotary(1, 16, device, dtype))),
        "llama_layer": (LlamaLayer(), (rows(2, 37, 96), *_rotary(37, 16, device, dtype))),
        "gpt_layer": (GPTLayer(), (rows(2, 33, 80),)),
        "lora_1": (LoRA(), (rows(1, 96),)),
        "lora_rows": (LoRA(), (rows(40, 96),)),
        "conv_net": (ConvNet(), (rows(2, 3, 12, 12),)),
        "embedder": (Embedder(), (torch.randint(0, 50, (3, 7), device=device),)),
        "mixture": (Mixture(), (rows(9, 32),)),
    }
    return {
        name: (model.to(device, dtype).eval(), inputs) for name, (model, inputs) in entries.items()
    }


NAMES = tuple(zoo("cpu", torch.float32))
