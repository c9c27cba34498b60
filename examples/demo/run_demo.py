#!/usr/bin/env python3
"""The demo: one job under four policies, on this machine's header files.

Costs are measured once and given to every run. Each policy runs as a whole job,
in turn and then in reverse order, so that a drift of the machine's speed hits
all alike. Medians leave out the first two steps of each run. A second row has
16 documents a step instead of 6, and fewer steps: there data parallelism has
more to balance with, so the difference is smaller.

Ends with a table; the same numbers are in OUT/summary.json.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
POLICIES = ["static", "balanced", "packed", "even"]
WARM_UP_STEPS = 2
SECOND_ROW_STEPS = 8


class Run:
    """One job that `evenstep local` ran, read from its summary.json."""

    def __init__(self, policy, samples, summary):
        self.policy = policy
        self.samples = samples
        self.summary = summary
        self.steps = summary["steps"]
        self.losses = [step["loss"] for step in self.steps]

    def measured_steps(self):
        return self.steps[WARM_UP_STEPS:]


def name_of(policy, samples, repeat):
    return f"{policy}-{samples}-{repeat}"


class Demo:

    def __init__(self, bin_dir, out, settings, job=HERE / "job.yaml"):
        self.evenstep = bin_dir / "evenstep"
        self.job = job
        self.environment = None  # of the runs; None: this process's own
        self.settings = [w for s in settings for w in ("--set", s)]
        self.out = out
        self.costs = out / "costs.yaml"
        self.started = time.monotonic()

    def say(self, text):
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        print(f"[{minutes}:{seconds:02}] {text}", file=sys.stderr, flush=True)

    def local(self, name, *arguments):
        folder = self.out / name
        command = [self.evenstep, "local", self.job, "--output",
                   folder, *arguments, *self.settings]
        done = subprocess.run([str(word) for word in command],
                              stdout=subprocess.DEVNULL, check=False,
                              env=self.environment)
        if done.returncode != 0:
            raise SystemExit(f"demo: {name} ended with {done.returncode}")
        return self.summary_of(name)

    def summary_of(self, name):
        path = self.out / name / "summary.json"
        if not path.exists():
            raise SystemExit(f"demo: {path} is not there: no such run")
        return json.loads(path.read_text())

    def measure_costs(self):
        self.say("measuring costs once, for all runs")
        summary = self.local("costs", "--policy", "static", "--set", "steps=1",
                             "--set", "optimizer.warmup=0")
        costs = summary["costs"]
        self.costs.write_text(json.dumps(costs) + "\n")  # JSON is YAML.
        data = summary["data"]
        self.say(f"data: {data['num_samples']} documents, longest "
                 f"{data['longest']} tokens; skipped {data['num_too_long']} "
                 f"too long, {data['num_bad']} bad")
        return data

    def run(self, policy, samples, repeat, arguments):
        self.say(f"{policy}, {samples} documents a step, run {repeat}")
        summary = self.local(name_of(policy, samples, repeat), "--policy",
                             policy, "--costs", self.costs, "--set",
                             f"batch.samples={samples}", *arguments)
        return Run(policy, samples, summary)

    def read(self, policy, samples, repeat):
        """A run that is there."""
        name = name_of(policy, samples, repeat)
        return Run(policy, samples, self.summary_of(name))

    def run_there_and_back(self, policies, samples, *arguments):
        return [self.run(policy, samples, repeat, arguments)
                for repeat, order in ((1, policies), (2, policies[::-1]))
                for policy in order]


def summarize(runs):
    """Figures of one policy over its runs."""
    steps = [step for run in runs for step in run.measured_steps()]
    seconds = sum(step["step_seconds"] for step in steps)
    padded = sum(step["trained_tokens"] / (1 - step["padding_ratio"])
                 for step in steps)
    padding = sum(step["trained_tokens"] / (1 - step["padding_ratio"]) *
                  step["padding_ratio"] for step in steps)
    return {
        "step_seconds": statistics.median(s["step_seconds"] for s in steps),
        "tokens_per_second": sum(s["trained_tokens"] for s in steps) / seconds,
        "idle_share": sum(s["idle_share"] * s["step_seconds"]
                          for s in steps) / seconds,
        "padding_ratio": padding / padded,
        "first_loss": runs[0].losses[0],
        "final_loss": runs[0].losses[-1],
    }


def largest_difference(runs):
    reference = runs[0].losses
    return max(abs(a - b) for run in runs
               for a, b in zip(run.losses, reference, strict=True))


def table(title, figures, difference):
    lines = [title, f"{'policy':10}{'step s':>9}{'tokens/s':>10}{'idle':>8}"
             f"{'padding':>9}{'first':>8}{'final':>8}{'vs static':>11}"]
    base = figures["static"]["tokens_per_second"]
    for policy, row in figures.items():
        lines.append(
            f"{policy:10}{row['step_seconds']:9.3f}"
            f"{row['tokens_per_second']:10.0f}{row['idle_share']:8.1%}"
            f"{row['padding_ratio']:9.2%}{row['first_loss']:8.3f}"
            f"{row['final_loss']:8.3f}"
            f"{row['tokens_per_second'] / base:10.2f}x")
    lines.append(f"largest difference between the loss curves: {difference:.1e}")
    return "\n".join(lines)


# float32 sums in another order: eight times the largest difference that was
# seen (2.4e-7 to 6.3e-7).
LARGEST_DIFFERENCE = 5e-6
# `even` may take this much longer than `static`: the noise of CPU seconds where
# of each step the faster of two runs counts.
LARGEST_SLOWDOWN = 0.05
# Of steps that take at least SHORTEST_STEP: what a gate or a plan costs does not
# shrink with the step.
LARGEST_COORDINATION_SHARE = 0.01
LEAST_LEAD_SHARE = 0.95
SHORTEST_STEP = 0.2


def cpu_seconds(runs):
    """Of the slowest rank, over the measured steps. Of each step the run with
    the fewest counts: a busy machine only adds to them."""
    return sum(min(step["slowest_cpu_seconds"] for step in same)
               for same in zip(*(run.measured_steps() for run in runs),
                               strict=True))


def check_faster(runs):
    """`even` is not slower than `static` on the same samples, by the CPU
    seconds of the same run of the demo."""
    taken = {policy: [run for run in runs if run.policy == policy]
             for policy in ("static", "even")}
    measured = [step for policy in taken.values() for run in policy
                for step in run.measured_steps()]
    if statistics.mean(s["step_seconds"] for s in measured) < SHORTEST_STEP:
        return []
    slowdown = cpu_seconds(taken["even"]) / cpu_seconds(taken["static"]) - 1
    if slowdown <= LARGEST_SLOWDOWN:
        return []
    return [f"{runs[0].samples} documents a step: even takes {slowdown:.1%} "
            f"more CPU seconds than static; noise is {LARGEST_SLOWDOWN:.0%}"]


def check(runs, difference, coordination_share):
    """The demo's own promises for its first row; a broken one fails it."""
    problems = []
    long_enough = statistics.mean(
        s["step_seconds"] for run in runs for s in run.steps) >= SHORTEST_STEP
    for run in runs:
        last = statistics.mean(run.losses[-3:])
        if last > 0.8 * run.losses[0]:
            problems.append(f"{run.policy}: loss only fell from "
                            f"{run.losses[0]:.3f} to {last:.3f}")
        lead = run.summary["plan_lead_share"]
        if lead < LEAST_LEAD_SHARE and long_enough:
            problems.append(f"{run.policy}: a plan was ahead on only "
                            f"{lead:.0%} of steps")
    if difference > LARGEST_DIFFERENCE:
        problems.append(f"loss curves differ by {difference:.1e}")
    if coordination_share > LARGEST_COORDINATION_SHARE and long_enough:
        problems.append(f"{coordination_share:.2%} of the time in the gate")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--set", action="append", default=[], dest="settings",
                        metavar="KEY=VALUE", help="changes the demo's job")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    demo = Demo(options.bin.resolve(), out, options.settings)
    data = demo.measure_costs()
    few = demo.run_there_and_back(POLICIES, 6)
    many = demo.run_there_and_back(["static", "even"], 16, "--set",
                                   f"steps={SECOND_ROW_STEPS}")

    figures = {p: summarize([r for r in few if r.policy == p])
               for p in POLICIES}
    many_figures = {p: summarize([r for r in many if r.policy == p])
                    for p in ("static", "even")}
    difference = largest_difference(few)
    many_difference = largest_difference(many)
    gate = sum(run.summary["coordination_share"] *
               sum(s["step_seconds"] for s in run.steps) for run in few)
    total = sum(s["step_seconds"] for run in few for s in run.steps)

    print(table("6 documents a step, 2 ranks", figures, difference))
    print()
    print(table("16 documents a step, 2 ranks", many_figures, many_difference))
    print(f"coordination share (time in the gate): {gate / total:.2%}")

    def speedup(rows):
        return (rows["even"]["tokens_per_second"] /
                rows["static"]["tokens_per_second"])

    summary = {
        **figures,
        "speedup": speedup(figures),
        "max_loss_difference": difference,
        "coordination_share": gate / total,
        "data": data,
        "16_documents": {**many_figures, "speedup": speedup(many_figures),
                         "max_loss_difference": many_difference},
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(f"written: {out / 'summary.json'}")

    problems = check(few, max(difference, many_difference),
                     gate / total)
    problems += check_faster(few) + check_faster(many)
    for problem in problems:
        print(f"demo: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
