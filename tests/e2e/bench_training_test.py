"""The judge of the training benchmark, on figures made up for it."""

import pathlib
import sys
import unittest

import case_runner

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/training"))
import judge  # noqa: E402  pylint: disable=wrong-import-position


def step(seconds, mean=None):
    return {"trained_tokens": 100, "slowest_cpu_seconds": seconds,
            "mean_cpu_seconds": seconds if mean is None else mean}


def row(policy, rate, noise=0.01, idle=0.01):
    return {"policy": policy, "rate": rate, "noise": noise, "idle_share": idle}


class JudgeTest(unittest.TestCase):

    key = "slowest_cpu_seconds"

    def test_of_each_step_the_least_counts(self):
        repeats = [[step(1), step(3)], [step(2), step(2)]]
        least = judge.least_of(repeats, self.key)
        self.assertEqual([s[self.key] for s in least], [1, 2])
        self.assertAlmostEqual(judge.rate(least, self.key), 200 / 3)

    def test_noise_is_what_one_repeat_can_change(self):
        same = [[step(1), step(1)]] * 3
        self.assertEqual(judge.noise_of(same, self.key), 0)
        # 1 + 1 without the first, 1 + 2 without the second or third.
        uneven = [[step(1), step(2)], [step(2), step(1)], [step(2), step(1)]]
        self.assertAlmostEqual(judge.noise_of(uneven, self.key), 1 / 3)
        self.assertEqual(judge.noise_of(same[:1], self.key), float("inf"))

    def test_idle_share_is_of_the_slowest_rank(self):
        self.assertAlmostEqual(judge.idle_share([step(2, 1), step(2, 2)]), 0.25)

    def test_who_is_faster_beyond_the_noise_is_named(self):
        fast = [row("packed", 104), row("even", 100)]
        self.assertIn("packed is 4.0% faster than even, beyond the noise of "
                      "1.0%", judge.check_fastest(fast, "rate"))
        within = [row("packed", 104, noise=0.045), row("even", 100)]
        self.assertEqual(judge.check_fastest(within, "rate"), [])

    def test_noise_cannot_hide_everything(self):
        self.assertEqual(judge.check_noise([row("even", 100)]), [])
        self.assertEqual(len(judge.check_noise([row("even", 100, 0.2)])), 1)

    def test_idle_even_is_named(self):
        self.assertEqual(judge.check_idle([row("even", 100, idle=0.029)]), [])
        self.assertEqual(judge.check_idle([row("even", 100, idle=0.034)]),
                         ["even: idle share 3.4%, above 3%"])

    def test_a_win_within_the_noise_is_none(self):
        def check(even):
            return judge.check_beats([row("packed", 100), row("even", even)],
                                     "packed", "rate")

        self.assertEqual(check(110), [])
        self.assertEqual(len(check(100.5)), 1)
        self.assertEqual(len(check(95)), 1)


if __name__ == "__main__":
    case_runner.main()
