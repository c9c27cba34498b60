"""Figures of policies that ran the same steps several times, and who won.

A shared machine slows some steps of some runs for a while, and speeds others
up. So of each step the median of the runs counts, by the time that is judged.
`noise` is how far that figure would move if the runs were drawn again: the
bootstrap's 95 % interval, half its width (B. Efron, R. Tibshirani, An
Introduction to the Bootstrap, 1993, chapter 13). Of four runs it is a coarse
one. Two figures differ by chance by up to the root of the sum of their squares.
"""

import math
import random
import statistics

# Of `even`, by CPU seconds.
LARGEST_IDLE_SHARE = 0.03
# Above this a run cannot tell rows apart that differ by a few per cent; no row
# is allowed more.
LARGEST_NOISE = 0.05
# Over an emulated link four ranks share two cores, and the wall clock judges:
# both were seen up to 7.4 % and 3.9 %.
LARGEST_EMULATED_NOISE = 0.08
LARGEST_EMULATED_IDLE_SHARE = 0.05
DRAWS = 1000  # of the bootstrap
COVERED = 0.95


def median_of(repeats, key):
    """The steps of `repeats`, each as the repeat had it whose `key` is the
    median (of an even number, the lower of the middle two)."""
    return [sorted(same, key=lambda step: step[key])[(len(same) - 1) // 2]
            for same in zip(*repeats, strict=True)]


def rate(steps, key):
    """Trained tokens for each second of `key`."""
    return sum(s["trained_tokens"] for s in steps) / sum(s[key] for s in steps)


def noise_of(repeats, key):
    """Half of the relative interval that holds the rate, of repeats drawn again
    with replacement. The same repeats give the same noise."""
    if len(repeats) < 2:
        return float("inf")
    draw = random.Random(1)
    rates = sorted(
        rate(median_of(draw.choices(repeats, k=len(repeats)), key), key)
        for _ in range(DRAWS))
    cut = round(DRAWS * (1 - COVERED) / 2)
    return ((rates[-1 - cut] - rates[cut]) / 2 /
            rate(median_of(repeats, key), key))


def noise_of_both(a, b, most=math.inf):
    """Of the ratio of two rows' rates; of each row at most `most`."""
    return math.hypot(min(a["noise"], most), min(b["noise"], most))


def idle_share(steps):
    """Of the slowest rank's CPU seconds: what the mean rank did not need."""
    return 1 - (sum(s["mean_cpu_seconds"] for s in steps) /
                sum(s["slowest_cpu_seconds"] for s in steps))


def check_noise(rows, most=LARGEST_NOISE):
    """Neither the median row nor `even`, which all are compared with."""
    even = next(row["noise"] for row in rows if row["policy"] == "even")
    noise = max(even, statistics.median(row["noise"] for row in rows))
    if noise <= most:
        return []
    return [f"the machine was too noisy: a figure moves by {noise:.1%} from one "
            f"set of runs to another, more than {most:.0%}"]


def check_fastest(rows, key):
    """`even` is the fastest, or equal within the noise of the two, of which a
    row has at most LARGEST_NOISE."""
    figures = {row["policy"]: row for row in rows}
    even = figures["even"]
    problems = []
    for policy, row in figures.items():
        noise = noise_of_both(row, even, LARGEST_NOISE)
        ahead = row[key] / even[key] - 1
        if ahead > noise:
            problems.append(f"{policy} is {ahead:.1%} faster than even, beyond "
                            f"the noise of {noise:.1%}")
    return problems


def check_idle(rows, most=LARGEST_IDLE_SHARE):
    idle = next(r["idle_share"] for r in rows if r["policy"] == "even")
    if idle <= most:
        return []
    return [f"even: idle share {idle:.1%}, above {most:.0%}"]


def check_beats(rows, other, key):
    """`even` is faster than `other` beyond the noise of the two."""
    figures = {row["policy"]: row for row in rows}
    even, packed = figures["even"], figures[other]
    ahead = even[key] / packed[key] - 1
    noise = noise_of_both(even, packed)
    if ahead > noise:
        return []
    return [f"even is {ahead:.1%} faster than {other}, within the noise of "
            f"{noise:.1%}"]
