#!/usr/bin/env python3
"""How well step times are predicted: after a profile, and after 30 refits.

Steps were not part of the profile, and each plan was made before its step ran,
so every step is held out. The measured time is the CPU seconds of the slowest
rank; one thread a rank, 2 ranks. Fails above the bounds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "examples" / "demo"))
sys.path.insert(0, str(HERE))

import corpus  # noqa: E402
import run_demo  # noqa: E402

LARGEST_ERROR_AFTER_PROFILE = 0.10
LARGEST_ERROR_AFTER_REFIT = 0.05
REFIT_STEPS = 30


def error_of(steps):
    return statistics.mean(
        abs(s["predicted_seconds"] / s["slowest_cpu_seconds"] - 1)
        for s in steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--policy", default="even")
    parser.add_argument("--steps", type=int, default=10,
                        help="steps that are judged")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    bin_dir = options.bin.resolve()

    total = REFIT_STEPS + options.steps
    lengths = corpus.draw_lengths(bin_dir, "wikipedia", 16 * total, 2, 8192)
    corpus.write_corpus(work / "wikipedia.jsonl", lengths, 2)
    job = work / "job.yaml"
    job.write_text((HERE / "job.yaml").read_text())
    profile = work / "profile.yaml"
    subprocess.run([bin_dir / "evenstep", "profile", job, "--out", profile],
                   check=True, stdout=subprocess.DEVNULL)

    demo = run_demo.Demo(bin_dir, work, [], job)

    def run(name, steps, refit):
        return demo.local(name, "--policy", options.policy, "--costs", profile,
                          "--set", f"steps={steps}", "--set",
                          f"refit={refit}")["steps"]

    kept = run("kept", run_demo.WARM_UP_STEPS + options.steps, "false")
    refitted = run("refitted", total, "true")
    after_profile = error_of(kept[run_demo.WARM_UP_STEPS:])
    after_refit = error_of(refitted[REFIT_STEPS:])
    print(json.dumps({"after_profile": after_profile,
                      "after_refit": after_refit}))
    print(f"mean error of predicted step times, CPU seconds: "
          f"{after_profile:.1%} after the profile (at most "
          f"{LARGEST_ERROR_AFTER_PROFILE:.0%}), {after_refit:.1%} after "
          f"{REFIT_STEPS} steps of refit (at most "
          f"{LARGEST_ERROR_AFTER_REFIT:.0%})")
    return int(after_profile > LARGEST_ERROR_AFTER_PROFILE or
               after_refit > LARGEST_ERROR_AFTER_REFIT)


if __name__ == "__main__":
    sys.exit(main())
