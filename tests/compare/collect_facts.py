#!/usr/bin/env python3
"""Prints, as JSON, what must not change from one version to the next: plans of
random requests, float64 loss curves of all policies, the fields of all JSON
that people read by program, and the metrics.

    EVENSTEP_BIN_DIR=build/release/bin collect_facts.py --plans 1000 --seed 1

compare_commits.py compares the facts of two commits.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from cluster import BIN, Cluster, write_documents, write_job  # noqa: E402

COSTS = ("h200-5b-1d", "h200-1.2b-1d", "flexsp-7b-a100", "flexsp-13b-a100")
CLIP_COSTS = ("h200-5b-2d", "h200-1.2b-2d")
JOB_POLICIES = ("static", "balanced", "packed", "even", "bucket",
                "bucket-tuned", "dcp-inter", "dcp-intra")
# Measured, or another one in each run.
NOT_A_FACT = ("planning_seconds",)


def run(*words, text=None, ok=(0,)):
    done = subprocess.run([BIN / "evenstep", *map(str, words)], input=text,
                          text=True, capture_output=True, timeout=300,
                          check=False)
    if done.returncode not in ok:
        raise SystemExit(f"{' '.join(map(str, words))}: exit status "
                         f"{done.returncode}\n{done.stderr}")
    return done.stdout


def random_request(seed):
    """(flags, samples on standard input) of a request that has plans or not."""
    chance = random.Random(seed)
    count = chance.choice((1, 2, 3, 8, 20, 60))
    longest = chance.choice((64, 1024, 8192, 40000))
    gpus = chance.choice((1, 2, 3, 4, 6, 8, 16, 24, 32))
    if chance.random() < 0.3:
        costs = chance.choice(CLIP_COSTS)
        samples = [f"{chance.choice((1, 4, 16, 51))}x"
                   f"{chance.choice((8, 16, 32))}x{chance.choice((8, 16, 27))}"
                   for _ in range(count)]
    else:
        costs = chance.choice(COSTS)
        samples = [max(1, int(longest ** chance.random()))
                   for _ in range(count)]
    flags = ["plan", "--lengths", "-", "--gpus", gpus, "--costs", costs,
             "--seed", seed, "--work-budget", chance.choice((200, 2000)),
             "--sync", chance.choice(("per_step", "per_round")),
             "--blocks", chance.choice(("aligned", "contiguous")),
             "--show-plan", "-o", "json"]
    if chance.random() < 0.3:
        flags += ["--rank-speed", f"{chance.randrange(gpus)}="
                  f"{chance.choice((0.5, 0.8, 1.1))}"]
    if chance.random() < 0.3:
        flags += ["--recompute", "fixed", "--recompute-layers",
                  chance.choice((0, 6))]
    if chance.random() < 0.3:
        flags += ["--max-groups-per-rank", chance.choice((1, 2))]
    if chance.random() < 0.3:
        flags += ["--tokens-per-gpu", chance.choice((1000, 20000))]
    if chance.random() < 0.3:
        flags += ["--gpus-per-node", chance.choice((1, 2, 4, 8))]
    return flags, "".join(f"{sample}\n" for sample in samples)


def without(value, names):
    if isinstance(value, dict):
        return {key: without(item, names) for key, item in value.items()
                if key not in names}
    if isinstance(value, list):
        return [without(item, names) for item in value]
    return value


def plan_facts(seed):
    flags, lengths = random_request(seed)
    done = subprocess.run([BIN / "evenstep", *map(str, flags)], input=lengths,
                          text=True, capture_output=True, timeout=300,
                          check=False)
    if done.returncode not in (0, 2, 5):
        raise SystemExit(f"request {seed}: exit status {done.returncode}\n"
                         f"{done.stderr}")
    if done.returncode == 2:  # flags that contradict each other
        return {"refused": done.stderr}
    facts = {}
    for row in without(json.loads(done.stdout), NOT_A_FACT)["policies"]:
        text = json.dumps(row, sort_keys=True)
        facts[row["policy"]] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return facts


def plans(number, first_seed):
    seeds = range(first_seed, first_seed + number)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(map(str, seeds), pool.map(plan_facts, seeds)))


def shape(value):
    """The type of each field, by its path; lists hold one kind of thing."""
    fields = {}

    def visit(item, path):
        if isinstance(item, dict):
            for key, inner in item.items():
                # Keys that are data: files, ranks, jobs.
                word = key if re.fullmatch("[a-z_][a-z0-9_]*", key) else "*"
                visit(inner, f"{path}.{word}")
        elif isinstance(item, list):
            for inner in item:
                visit(inner, f"{path}[]")
        else:
            kind = "number" if isinstance(item, (int, float)) and not \
                isinstance(item, bool) else type(item).__name__
            fields.setdefault(path, set()).add(kind)

    visit(value, "")
    return {path: sorted(kinds) for path, kinds in fields.items()}


def steady_job(folder, policy, **changes):
    """A float64 job whose plans and losses are the same in every run."""
    documents = folder / "documents"
    write_documents(documents)
    costs = {"micro_batch_fixed_ns": 100000, "linear_ns_per_token": 1e5,
             "quadratic_ns_per_token2": 100.0, "collective_latency_ns": 1000,
             "collective": [{"degree": 2, "ns_per_token": 10.0}],
             "step_fixed_ns": 100000}
    return write_job(folder / f"{policy}.yaml", documents, policy=policy,
                     precision="float64", costs=costs, refit=False, **changes)


def clip_job(folder, policy):
    """The same of clips: spatial and temporal layers, two ranks a clip."""
    clips = folder / "clips"
    if not clips.exists():
        run("data", "make-latents", clips, "--clips", 24)
    costs = {"micro_batch_fixed_ns": 100000, "linear_ns_per_token": 0.0,
             "quadratic_ns_per_token2": 0.0, "collective_latency_ns": 1000,
             "spatial_linear_ns_per_token": 5e4,
             "temporal_linear_ns_per_token": 5e4,
             "spatial_quadratic_ns_per_token2": 20.0,
             "temporal_quadratic_ns_per_token2": 20.0,
             "collective": [{"degree": 2, "ns_per_token": 100.0}],
             "step_fixed_ns": 1000000}
    job = {"name": "clips", "kind": "train",
           "model": {"kind": "video", "layers": 2, "width": 32, "heads": 4,
                     "channels": 3, "patch": 2},
           "data": {"source": f"latents:{clips}", "max_length": 1024,
                    "given_frames": 0.2},
           "batch": {"samples": 4}, "steps": 6, "seed": 1, "refit": False,
           "optimizer": {"lr": 0.002}, "policy": policy, "ranks": 2,
           "precision": "float64", "memory": {"tokens_per_rank": 512},
           "costs": costs}
    path = folder / f"clips-{policy}.yaml"
    path.write_text(json.dumps(job))
    return path


def train(folder, job):
    out = folder / f"out-{job.stem}"
    run("local", job, "--output", out, "-q")
    loss = json.loads((out / "loss.json").read_text())
    summary = json.loads((out / "summary.json").read_text())
    return loss, summary


def training(folder):
    curves, shapes = {}, {}
    for kind, make_job in (("text", steady_job), ("clips", clip_job)):
        for policy in JOB_POLICIES:
            loss, summary = train(folder, make_job(folder, policy))
            curves[f"{kind} {policy}"] = [
                value.hex() for value in summary["losses"]]
            shapes[f"loss.json {kind}"] = shape(loss)
            shapes[f"summary.json {kind}"] = shape(summary)
    return curves, shapes


def service(folder):
    """Fields of the service's JSON, and names of its metrics."""
    shapes = {}
    with Cluster(agents=2, slots=1) as cluster:
        address = f"127.0.0.1:{cluster.port}"

        def ask(*words):
            """All documents that the command writes: one, or one a line."""
            text = run("--coordinator", address, *words, "-o", "json")
            read, found = json.JSONDecoder().raw_decode, []
            while text:
                value, end = read(text)
                found.append(value)
                text = text[end:].lstrip()
            return found

        submitted = ask("submit", steady_job(folder, "even"))
        shapes["submit"] = shape(submitted)
        job = submitted[0]["id"]
        for words in (("describe", job), ("list",), ("events", job),
                      ("logs", job), ("health",), ("version",)):
            shapes[words[0]] = shape(ask(*words))
        names = sorted({metric.split("{")[0] + "{" + ",".join(
            part.split("=")[0] for part in
            metric.partition("{")[2].rstrip("}").split(",")) + "}"
            for metric in cluster.metrics()})
    return shapes, names


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        facts = {"plans": plans(options.plans, options.seed)}
        facts["curves"], shapes = training(folder)
        service_shapes, facts["metrics"] = service(folder)
        shapes.update(service_shapes)
        flags, lengths = random_request(1)
        shapes["plan"] = shape(json.loads(run(*flags, text=lengths)))
        shapes["data inspect"] = shape(json.loads(run(
            "data", "inspect", f"text:{folder / 'documents'}", "-o", "json")))
        facts["json"] = shapes
    json.dump(facts, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
