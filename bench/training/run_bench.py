#!/usr/bin/env python3
"""Training throughput of every policy: same samples, same seed, same costs.

Each policy runs as a whole job of `evenstep local`, in turn and then in reverse
order, so that a drift of the machine's speed hits all alike. The first two
steps of each run are left out. 2 ranks on 2 cores, one thread each: a text model
on lengths of Wikipedia, and a video model on clips of three laws (latents.py).
Then 4 ranks over an emulated link between nodes of 2 ranks, which is slower than
this machine's loopback, for either model: those rows say EMULATED, and compare
only among themselves.

Rates are by the wall clock, and by CPU: tokens over the CPU seconds of the
slowest rank. Of each step the median of the repeats counts; `noise` is how far
that would move if they ran again (judge.py). Checks are on CPU seconds, of the
emulated rows on the wall clock. Each run leaves its summary; --judge-only judges
those that are there.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path.insert(0, str(REPOSITORY / "examples" / "demo"))
sys.path.insert(0, str(HERE))

import corpus  # noqa: E402
import judge  # noqa: E402
import latents  # noqa: E402
import run_demo  # noqa: E402

POLICIES = ["static", "balanced", "bucket", "bucket-tuned", "packed",
            "dcp-inter", "dcp-intra", "even"]
LAW = "wikipedia"
LONGEST = 8192
SAMPLES = 16
CORPUS_SEED = 1
VIDEO_LAWS = ["short", "balanced", "long"]

EMULATED_RANKS = 4
EMULATED_POLICIES = ["packed", "dcp-inter", "even"]
EMULATED_LINK = ("ranks_per_node=2,inside_latency=100us,"
                 "inside_gigabytes_per_second=1,across_latency=500us,"
                 "across_gigabytes_per_second=0.1")
# Of the longest clips (2,160 tokens) each of 4 ranks holds a part, of 990 and
# more each of 2, and all others fit one.
EMULATED_CLIP_TOKENS = 640
# Nearly all clips of `short` fit one rank: then the link is hardly used, and 4
# ranks on 2 cores do not show by the wall clock how well they are balanced.
EMULATED_VIDEO_LAWS = ["balanced", "long"]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """One setting: a job, its data, a number of ranks and a link."""

    job_file = "job.yaml"
    model = "text, 2 layers, width 128"
    law = LAW
    judged_by = "slowest_cpu_seconds"

    def __init__(self, options, name, ranks, settings, link=None):
        self.out = options.work / name
        self.out.mkdir(parents=True, exist_ok=True)
        self.ranks = ranks
        self.link = link
        if link:  # its waiting takes no CPU
            self.judged_by = "step_seconds"
        self.options = options
        job = self.out / "job.yaml"
        job.write_text((HERE / self.job_file).read_text())
        steps = options.steps + run_demo.WARM_UP_STEPS
        self.runner = run_demo.Demo(
            options.bin, self.out,
            [f"ranks={ranks}", f"steps={steps}", *settings, *options.settings],
            job)
        if link:
            self.runner.environment = {
                **os.environ, "EVENSTEP_TRAINER_EMULATED_LINK": link}
        # Each step trains on samples that no other step has.
        if not options.judge_only:
            self.make_data(SAMPLES * steps)

    def make_data(self, count):
        lengths = corpus.draw_lengths(self.options.bin, LAW, count,
                                      CORPUS_SEED, LONGEST)
        corpus.write_corpus(self.out / "wikipedia.jsonl", lengths, CORPUS_SEED)

    def measure_costs(self):
        """A profile, or, over an emulated link, what a job measures."""
        if self.link:
            self.runner.measure_costs()
            return
        command = [self.options.bin / "evenstep", "profile", self.out /
                   "job.yaml", "--repeats", "3", "--out", self.runner.costs]
        say(f"profile, {self.ranks} ranks")
        subprocess.run([str(word) for word in command], check=True,
                       stdout=subprocess.DEVNULL)

    def run(self, policies):
        if self.options.judge_only:
            return [self.runner.read(policy, SAMPLES, repeat + 1)
                    for repeat in range(self.options.repeats)
                    for policy in policies]
        self.measure_costs()
        runs = []
        for repeat in range(self.options.repeats):
            order = policies if repeat % 2 == 0 else policies[::-1]
            runs += [self.runner.run(policy, SAMPLES, repeat + 1, [])
                     for policy in order]
        return runs


class VideoBench(Bench):
    """A video model on clips of a law."""

    job_file = "video_job.yaml"
    model = "video, 2 spatial and 2 temporal layers, width 192"
    least_frames = 1
    costs = None  # of the first law's job: the model is the same

    def __init__(self, options, law, name="video", ranks=2, settings=(),
                 link=None):
        self.law = law
        super().__init__(options, f"{name}-{law}", ranks, settings, link)

    def make_data(self, count):
        clips = latents.draw_clips(self.options.bin, self.law, count,
                                   CORPUS_SEED, self.least_frames)
        latents.write_clips(self.out / "clips", clips, CORPUS_SEED)

    def measure_costs(self):
        if type(self).costs is None:
            super().measure_costs()
            type(self).costs = self.runner.costs.read_text()
        self.runner.costs.write_text(type(self).costs)


class EmulatedVideoBench(VideoBench):
    """Clips that do not all fit one rank, over an emulated link.

    Of fewer frames than ranks they could not be switched, so that policies of
    one degree had none for a long clip and a short one.
    """

    model = f"{VideoBench.model}, clips of {EMULATED_RANKS} frames and more"
    least_frames = EMULATED_RANKS
    costs = None  # with the link

    def __init__(self, options, law):
        super().__init__(
            options, law, "video-emulated", EMULATED_RANKS,
            [f"memory.tokens_per_rank={EMULATED_CLIP_TOKENS}"], EMULATED_LINK)


def row_of(bench, policy, runs):
    repeats = [run.measured_steps() for run in runs]
    steps = judge.median_of(repeats, bench.judged_by)
    wall = sum(s["step_seconds"] for s in steps)
    slowest = sum(s["slowest_cpu_seconds"] for s in steps)
    tokens = sum(s["trained_tokens"] for s in steps)
    figures = run_demo.summarize(runs)
    return {
        "model": bench.model,
        "law": bench.law,
        "policy": policy,
        "ranks": bench.ranks,
        "link": f"EMULATED: {bench.link}" if bench.link else "loopback",
        "tokens_per_second": tokens / wall,
        "tokens_per_cpu_second": tokens / slowest,
        "noise": judge.noise_of(repeats, bench.judged_by),
        "idle_share": judge.idle_share(steps),
        "waiting_share": figures["idle_share"],
        "padding_ratio": figures["padding_ratio"],
        "recompute_ratio": statistics.mean(s["recompute_ratio"]
                                           for s in steps),
        "highest_degree": max(s["highest_degree"] for s in steps),
        "step_seconds": figures["step_seconds"],
        "prediction_error": statistics.mean(
            abs(s["predicted_seconds"] - s["slowest_cpu_seconds"]) /
            s["slowest_cpu_seconds"] for s in steps),
        "final_loss": figures["final_loss"],
    }


def print_table(title, rows, key):
    best = max(row[key] for row in rows)
    print(title)
    print(f"{'policy':14}{'tokens/s':>10}{'per CPU s':>11}{'vs best':>9}"
          f"{'noise':>8}{'idle':>8}{'waiting':>9}{'padding':>9}"
          f"{'recompute':>11}{'degree':>8}{'pred. error':>13}")
    for row in rows:
        print(f"{row['policy']:14}{row['tokens_per_second']:10.0f}"
              f"{row['tokens_per_cpu_second']:11.0f}{row[key] / best:9.3f}"
              f"{row['noise']:8.1%}{row['idle_share']:8.1%}"
              f"{row['waiting_share']:9.1%}{row['padding_ratio']:9.2%}"
              f"{row['recompute_ratio']:11.1%}{row['highest_degree']:8}"
              f"{row['prediction_error']:13.1%}")
    print(flush=True)


def check(rows):
    """`even` is the fastest, or equal within the noise of the two."""
    if "even" not in (row["policy"] for row in rows):
        return []
    return (judge.check_noise(rows) +
            judge.check_fastest(rows, "tokens_per_cpu_second") +
            judge.check_idle(rows))


def check_emulated(rows):
    problems = (judge.check_noise(rows, judge.LARGEST_EMULATED_NOISE) +
                judge.check_beats(rows, "packed", "tokens_per_second") +
                judge.check_idle(rows, judge.LARGEST_EMULATED_IDLE_SHARE))
    return [f"EMULATED: {problem}" for problem in problems]


def check_curves(runs):
    difference = run_demo.largest_difference(runs)
    print(f"largest difference between the loss curves: {difference:.1e}\n")
    if difference <= run_demo.LARGEST_DIFFERENCE:
        return []
    return [f"loss curves differ by {difference:.1e}"]


def rows_of(bench, policies, runs):
    return [row_of(bench, policy, [r for r in runs if r.policy == policy])
            for policy in policies]


# Each prints its table, and returns its rows and what they break.


def text_part(options):
    bench = Bench(options, "loopback", 2, [])
    runs = bench.run(options.policies)
    rows = rows_of(bench, options.policies, runs)
    print_table(f"{SAMPLES} samples a step, lengths of {LAW} up to {LONGEST}, "
                "2 ranks on loopback", rows, "tokens_per_cpu_second")
    return rows, check(rows) + check_curves(runs)


def video_part(options):
    all_rows, problems = [], []
    for law in VIDEO_LAWS:
        bench = VideoBench(options, law)
        runs = bench.run(options.policies)
        rows = rows_of(bench, options.policies, runs)
        print_table(f"video: {SAMPLES} clips a step, law {law}, 2 ranks on "
                    "loopback", rows, "tokens_per_cpu_second")
        all_rows += rows
        problems += [f"{law}: {problem}"
                     for problem in check(rows) + check_curves(runs)]
    return all_rows, problems


def emulated_part(options):
    bench = Bench(options, "emulated", EMULATED_RANKS,
                  ["memory.tokens_per_rank=2048"], EMULATED_LINK)
    runs = bench.run(EMULATED_POLICIES)
    rows = rows_of(bench, EMULATED_POLICIES, runs)
    print_table(f"EMULATED LINK ({EMULATED_LINK}), {EMULATED_RANKS} ranks",
                rows, "tokens_per_second")
    return rows, check_emulated(rows) + check_curves(runs)


def emulated_video_part(options):
    all_rows, problems = [], []
    for law in EMULATED_VIDEO_LAWS:
        bench = EmulatedVideoBench(options, law)
        runs = bench.run(EMULATED_POLICIES)
        rows = rows_of(bench, EMULATED_POLICIES, runs)
        print_table(f"EMULATED LINK ({EMULATED_LINK}), {EMULATED_RANKS} ranks, "
                    f"video, law {law}", rows, "tokens_per_second")
        all_rows += rows
        problems += [f"{law}: {problem}" for problem in
                     check_emulated(rows) + check_curves(runs)]
    return all_rows, problems


PARTS = {"text": text_part, "video": video_part, "emulated": emulated_part,
         "video-emulated": emulated_video_part}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True,
                        help="folder of the runs")
    parser.add_argument("--out", type=pathlib.Path, required=True,
                        help="where the rows go, as JSON")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--steps", type=int, default=6,
                        help="steps of a run, after two that warm up")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--judge-only", action="store_true",
                        help="run nothing; judge what --work has")
    parser.add_argument("--only", choices=PARTS, action="append",
                        help="only this part; may be repeated")
    parser.add_argument("--set", action="append", default=[], dest="settings",
                        metavar="KEY=VALUE", help="changes the job")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    options.work = options.work.resolve()
    return options


def main():
    options = parse_options()
    rows, problems = [], []
    for name in options.only or PARTS:
        part_rows, part_problems = PARTS[name](options)
        rows += part_rows
        problems += part_problems
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({
        "machine": f"{len(os.sched_getaffinity(0))} cores, {platform.processor()} "
                   f"{platform.machine()}",
        "load_average": os.getloadavg()[0],
        "rows": rows,
        "problems": problems,
    }, indent=2) + "\n")
    print(f"written: {options.out}")
    for problem in problems:
        print(f"bench-training: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
