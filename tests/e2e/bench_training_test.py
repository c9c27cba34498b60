"""The judge of the training benchmark, on figures made up for it."""

import pathlib
import sys
import unittest
import unittest.mock

import case_runner

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/training"))
sys.path.insert(0, str(ROOT / "bench"))
import run_bench  # noqa: E402  pylint: disable=wrong-import-position
import judge  # noqa: E402  pylint: disable=wrong-import-position
import latents  # noqa: E402  pylint: disable=wrong-import-position
import training_tables  # noqa: E402  pylint: disable=wrong-import-position


def step(seconds, mean=None):
    return {"trained_tokens": 100, "slowest_cpu_seconds": seconds,
            "mean_cpu_seconds": seconds if mean is None else mean}


def row(policy, rate, noise=0.01, idle=0.01):
    return {"policy": policy, "rate": rate, "noise": noise, "idle_share": idle,
            "tokens_per_second": rate, "tokens_per_cpu_second": rate}


class JudgeTest(unittest.TestCase):

    key = "slowest_cpu_seconds"

    def test_of_each_step_the_median_counts(self):
        repeats = [[step(1), step(9)], [step(2), step(2)], [step(9), step(1)]]
        middle = judge.median_of(repeats, self.key)
        self.assertEqual([s[self.key] for s in middle], [2, 2])
        self.assertAlmostEqual(judge.rate(middle, self.key), 50)
        lower = judge.median_of(repeats[:2], self.key)
        self.assertEqual([s[self.key] for s in lower], [1, 2])

    def test_one_lucky_run_moves_nothing(self):
        runs = [[step(10)], [step(10)], [step(10)], [step(5)]]
        self.assertEqual(judge.rate(judge.median_of(runs, self.key), self.key),
                         10)

    def test_noise_grows_with_the_spread_of_the_runs(self):
        def noise(*seconds):
            return judge.noise_of([[step(s)] for s in seconds], self.key)

        self.assertEqual(noise(3, 3, 3), 0)
        self.assertEqual(noise(3), float("inf"))
        self.assertGreater(noise(9, 10, 10, 11), 0.05)
        self.assertLess(noise(9.9, 10, 10, 10.1), 0.02)
        self.assertEqual(noise(9, 10, 11), noise(9, 10, 11))

    def test_idle_share_is_of_the_slowest_rank(self):
        self.assertAlmostEqual(judge.idle_share([step(2, 1), step(2, 2)]), 0.25)

    def test_who_is_faster_beyond_the_noise_is_named(self):
        fast = [row("packed", 104), row("even", 100)]
        self.assertIn("packed is 4.0% faster than even, beyond the noise of "
                      "1.4%", judge.check_fastest(fast, "rate"))
        within = [row("packed", 104, noise=0.045), row("even", 100)]
        self.assertEqual(judge.check_fastest(within, "rate"), [])

    def test_a_difference_has_the_noise_of_both_rows(self):
        rows = [row("packed", 103, noise=0.025), row("even", 100, noise=0.025)]
        self.assertEqual(judge.check_fastest(rows, "rate"), [])
        rows[1]["noise"] = 0.01
        self.assertEqual(len(judge.check_fastest(rows, "rate")), 1)

    def test_noise_cannot_hide_everything(self):
        self.assertEqual(judge.check_noise([row("even", 100)]), [])
        self.assertEqual(len(judge.check_noise([row("even", 100, 0.2)])), 1)
        # The noise of `even` alone, where all other rows are quiet.
        quiet = [row(policy, 100) for policy in ("static", "packed", "bucket")]
        self.assertEqual(len(judge.check_noise([*quiet,
                                                row("even", 100, 0.051)])), 1)

    def test_a_row_is_forgiven_no_more_than_the_bound_on_noise(self):
        rows = [row("packed", 120), row("even", 100, noise=0.5)]
        self.assertEqual(judge.check_fastest(rows, "rate"),
                         ["packed is 20.0% faster than even, beyond the noise "
                          "of 5.1%"])
        rows = [row("packed", 120, noise=0.5), row("even", 100)]
        self.assertEqual(len(judge.check_fastest(rows, "rate")), 1)
        self.assertEqual(len(run_bench.check(rows)), 2)  # and the noise

    def test_rows_over_an_emulated_link_have_bounds_too(self):
        def check(noise=0.02, idle=0.039, rate=120):
            return run_bench.check_emulated(
                [row("packed", 100), row("even", rate, noise, idle)])

        self.assertEqual(check(), [])
        self.assertIn("EMULATED: the machine was too noisy: a figure moves by "
                      "9.0%", check(noise=0.09)[0])
        self.assertEqual(check(idle=0.051),
                         ["EMULATED: even: idle share 5.1%, above 5%"])
        self.assertEqual(len(check(rate=101)), 1)

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


class LatentsTest(unittest.TestCase):

    # Three times a single frame, then one of 408; scaled to 1 and 15.
    sizes = [(1, 9, 16), (1, 9, 16), (1, 15, 27), (120, 45, 80)]

    def draw(self, _bin_dir, _law, count, _seed):
        return [self.sizes[i % len(self.sizes)] for i in range(count)]

    def test_clips_of_few_frames_are_left_out_and_others_drawn_instead(self):
        with unittest.mock.patch.object(latents, "draw_sizes", self.draw):
            self.assertEqual(latents.draw_clips("", "short", 3, 1),
                             [(1, 2, 3), (1, 2, 3), (1, 3, 5)])
            self.assertEqual(latents.draw_clips("", "short", 3, 1, 4),
                             [(15, 9, 16)] * 3)


class TrainingTablesTest(unittest.TestCase):

    def test_rows_of_different_links_stand_in_tables_of_their_own(self):
        figures = {"tokens_per_second": 1, "tokens_per_cpu_second": 1,
                   "noise": 0, "idle_share": 0, "padding_ratio": 0,
                   "recompute_ratio": 0, "highest_degree": 4,
                   "prediction_error": 0, "model": "video", "law": "short",
                   "ranks": 4}
        text = training_tables.tables(
            [{**figures, "policy": policy, "link": link}
             for link in ("loopback", "EMULATED: slow")
             for policy in ("packed", "even")])
        self.assertEqual(text.count("### video; law short; 4 ranks, "), 2)
        self.assertIn("4 ranks, EMULATED: slow\n", text)
        self.assertEqual(text.count("| even |"), 2)


if __name__ == "__main__":
    case_runner.main()
