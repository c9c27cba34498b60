#!/usr/bin/env python3
"""The training benchmark's model, documents and steps in Python torch.

DistributedDataParallel over Gloo on loopback, one thread a rank. Documents of a
step are dealt round-robin to the ranks, as a distributed sampler does. A rank
runs its own either

  padded   sorted by length and cut into micro-batches of at most --tokens
           tokens, each padded to its longest document, or
  packed   packed first-fit into micro-batches of at most --tokens tokens, with
           attention within each document only.

A document longer than --tokens is a micro-batch of its own: there is no
sequence parallelism here. Gradients are accumulated without communication and
reduced with the last micro-batch; the loss is the mean over the step's tokens.

Needs a Python torch 2.11 (docs/performance.md says how it was had). Reads the
corpus that bench/training/run_bench.py wrote and prints one JSON object.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

MASK = (1 << 64) - 1
END_TOKEN = 256
IGNORED = -100
FINAL_SHARE = 0.1  # of the peak rate, after the last step


def mix(x):
    """SplitMix64's finaliser, as in data/sampler.cc."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def document_of(sample_id, seed, size):
    """The document of a sample, as in data/sampler.cc."""
    key = mix(mix(seed) ^ (sample_id // size))
    half = 1
    while half < 31 and (1 << (2 * half)) < size:
        half += 1
    mask = (1 << half) - 1
    value = sample_id % size
    while True:
        left, right = value >> half, value & mask
        for round_index in range(8):
            left, right = right, left ^ (
                mix(key ^ mix((right * 8 + round_index) & MASK)) & mask)
        value = left << half | right
        if value < size:
            return value


class Layer(torch.nn.Module):

    def __init__(self, width, heads, num_layers):
        super().__init__()
        mlp = ((8 * width + 2) // 3 + 31) // 32 * 32
        self.heads = heads
        self.input_norm = torch.nn.RMSNorm(width, eps=1e-5)
        self.mlp_norm = torch.nn.RMSNorm(width, eps=1e-5)
        self.q, self.k, self.v, self.o = (
            torch.nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate = torch.nn.Linear(width, mlp, bias=False)
        self.up = torch.nn.Linear(width, mlp, bias=False)
        self.down = torch.nn.Linear(mlp, width, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            last = name.startswith(("o.", "down."))
            std = 0.02 / math.sqrt(2 * num_layers) if last else 0.02
            torch.nn.init.normal_(parameter, std=std)

    def forward(self, x, rotary, lengths):
        x = x + self.attention(self.input_norm(x), rotary, lengths)
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def attention(self, x, rotary, lengths):
        batch, tokens, width = x.shape
        q, k, v = (linear(x).view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for linear in (self.q, self.k, self.v))
        q, k = rotate(q, rotary), rotate(k, rotary)
        if lengths is None:  # padded: what is masked stands at the end
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            parts = zip(*(t.split(lengths, dim=2) for t in (q, k, v)))
            out = torch.cat([F.scaled_dot_product_attention(*p, is_causal=True)
                             for p in parts], dim=2)
        return self.o(out.transpose(1, 2).reshape(batch, tokens, width))


def rotary_table(positions, dim):
    frequency = 10000.0 ** (-torch.arange(0, dim, 2).float() / dim)
    angle = positions.float()[:, None] * frequency[None, :]
    return angle.cos(), angle.sin()


def rotate(x, rotary):
    cos, sin = rotary
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Decoder(torch.nn.Module):

    def __init__(self, options):
        super().__init__()
        self.dim = options.width // options.heads
        self.embedding = torch.nn.Embedding(257, options.width)
        torch.nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = torch.nn.ModuleList(
            Layer(options.width, options.heads, options.layers)
            for _ in range(options.layers))
        self.norm = torch.nn.RMSNorm(options.width, eps=1e-5)
        self.head = torch.nn.Linear(options.width, 257, bias=False)
        torch.nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, tokens, targets, positions, lengths):
        x = self.embedding(tokens)
        rotary = rotary_table(positions, self.dim)
        for layer in self.layers:
            x = layer(x, rotary, lengths)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(),
                               reduction="sum", ignore_index=IGNORED)


def read_documents(path):
    documents = []
    for line in path.read_text(encoding="ascii").splitlines():
        text = json.loads(line)["text"].encode()
        documents.append(torch.tensor(list(text) + [END_TOKEN]))
    return documents


def padded_batches(documents, cap):
    batches = []
    for document in sorted(documents, key=len):
        longest = len(document)  # ascending
        if batches and (len(batches[-1]) + 1) * longest <= cap:
            batches[-1].append(document)
        else:
            batches.append([document])
    return batches


def packed_batches(documents, cap):
    batches = []
    for document in documents:
        for batch in batches:
            if sum(map(len, batch)) + len(document) <= cap:
                batch.append(document)
                break
        else:
            batches.append([document])
    return batches


def targets_of(document):
    """Each token's next one; the last has none."""
    return torch.cat([document[1:], torch.tensor([IGNORED])])


def padded_inputs(batch):
    longest = max(map(len, batch))
    tokens = torch.full((len(batch), longest), END_TOKEN)
    targets = torch.full((len(batch), longest), IGNORED)
    for row, document in enumerate(batch):
        tokens[row, :len(document)] = document
        targets[row, :len(document)] = targets_of(document)
    return tokens, targets, torch.arange(longest), None


def packed_inputs(batch):
    tokens = torch.cat(batch)[None]
    targets = torch.cat([targets_of(d) for d in batch])[None]
    positions = torch.cat([torch.arange(len(d)) for d in batch])
    return tokens, targets, positions, [len(d) for d in batch]


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_step(model, optimizer, batches, inputs_of, num_tokens, world):
    total = 0.0
    for index, batch in enumerate(batches):
        last = index + 1 == len(batches)
        with model.no_sync() if not last else torch.enable_grad():
            loss_sum = model(*inputs_of(batch))
            # DDP takes the mean over ranks.
            (loss_sum * world / num_tokens).backward()
        total += loss_sum.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def schedule(options):
    """Of the learning rate, as in worker/trainer/optim/adamw.cc."""
    span = max(1, options.steps - 1 - options.warm_up)

    def share(step):
        if step < options.warm_up:
            return (step + 1) / options.warm_up
        cosine = 0.5 * (1 + math.cos(
            math.pi * min(1, (step - options.warm_up) / span)))
        return FINAL_SHARE + (1 - FINAL_SHARE) * cosine

    return share


def run_rank(rank, options, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    torch.manual_seed(1)
    model = DistributedDataParallel(Decoder(options))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003,
                                  betas=(0.9, 0.95), weight_decay=0.1)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule(options))
    documents = read_documents(options.corpus)
    batches_of, inputs_of = {
        "padded": (padded_batches, padded_inputs),
        "packed": (packed_batches, packed_inputs)}[options.mode]
    steps = []
    for step in range(options.steps):
        ids = range(step * options.samples, (step + 1) * options.samples)
        chosen = [documents[document_of(i, options.seed, len(documents))]
                  for i in ids]
        num_tokens = sum(len(d) - 1 for d in chosen)
        batches = batches_of(chosen[rank::options.ranks], options.tokens)
        dist.barrier()
        begin, begin_cpu = time.monotonic(), cpu_seconds()
        loss_sum = run_step(model, optimizer, batches, inputs_of, num_tokens,
                            options.ranks)
        rates.step()
        dist.barrier()
        steps.append({"seconds": time.monotonic() - begin,
                      "cpu_seconds": cpu_seconds() - begin_cpu,
                      "tokens": num_tokens, "loss_sum": loss_sum})
    queue.put(steps)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--mode", choices=["padded", "packed"], required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=29611)
    options = parser.parse_args()
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [context.Process(target=run_rank, args=(rank, options, queue))
             for rank in range(options.ranks)]
    for process in ranks:
        process.start()
    by_rank = [queue.get() for _ in ranks]
    for process in ranks:
        process.join()
    measured = list(zip(*by_rank))[options.warm_up:]
    tokens = sum(step[0]["tokens"] for step in measured)
    wall = sum(max(r["seconds"] for r in step) for step in measured)
    slowest = sum(max(r["cpu_seconds"] for r in step) for step in measured)
    mean = sum(sum(r["cpu_seconds"] for r in step) / len(step)
               for step in measured)
    print(json.dumps({
        "engine": f"torch {torch.__version__} DDP, Gloo",
        "mode": options.mode,
        "ranks": options.ranks,
        "tokens_per_second": tokens / wall,
        "tokens_per_cpu_second": tokens / slowest,
        "idle_share": 1 - mean / slowest,
        "losses": [sum(r["loss_sum"] for r in step) / step[0]["tokens"]
                   for step in zip(*by_rank)],
    }))


if __name__ == "__main__":
    main()
