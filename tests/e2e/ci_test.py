"""The scripts of .ci that decide: which check has its turn, what asserts."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import case_runner

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".ci"), str(ROOT / "tests" / "compare")]
import assertions  # noqa: E402  pylint: disable=wrong-import-position
import check  # noqa: E402  pylint: disable=wrong-import-position
import collect_facts  # noqa: E402  pylint: disable=wrong-import-position
import compare_commits  # noqa: E402  pylint: disable=wrong-import-position


def git(folder, *arguments):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b",
                    *arguments], cwd=folder, check=True, capture_output=True)


class TurnTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.origin = self.folder / "origin"
        self.origin.mkdir()
        git(self.origin, "init", "-q")

    def commit(self):
        git(self.origin, "commit", "-q", "--allow-empty", "-m", "one")

    def turn_in(self, folder):
        with unittest.mock.patch.object(check, "HERE", folder):
            return check.turn()

    def test_four_commits_in_a_row_have_every_check_once(self):
        seen = []
        for _ in check.IN_TURN:
            self.commit()
            seen.append(self.turn_in(self.origin)[0])
        self.assertEqual(sorted(seen), list(range(len(check.IN_TURN))))

    def test_a_fresh_clone_counts_as_the_original_does(self):
        for _ in range(3):
            self.commit()
        git(self.folder, "clone", "-q", self.origin, "clone")
        self.assertEqual(self.turn_in(self.folder / "clone"),
                         self.turn_in(self.origin))

    def test_a_shallow_clone_does_not_take_its_depth_for_the_count(self):
        seen = set()
        for i in range(20):
            self.commit()
            git(self.folder, "clone", "-q", "--depth", "1",
                f"file://{self.origin}", f"clone{i}")
            due, why = self.turn_in(self.folder / f"clone{i}")
            self.assertIn("shallow", why)
            seen.add(due)
            if len(seen) > 1:
                return
            git(self.origin, "commit", "-q", "--allow-empty", "-m", str(i))
        self.fail(f"always the same: {seen}")

    def test_without_a_repository_there_is_a_turn_too(self):
        self.assertIn(self.turn_in(self.folder)[0], range(len(check.IN_TURN)))

    def test_all_but_one_in_turn_are_left_out_and_all_others_run(self):
        self.commit()
        with unittest.mock.patch.object(check, "HERE", self.origin):
            planned = check.plan(gating=True)
        left_out = [script for script, _, why_not in planned if why_not]
        self.assertEqual(len(left_out), len(check.IN_TURN) - 1)
        every = check.CHECKS + check.LAST + check.IN_TURN
        self.assertEqual(sorted(row[0] for row in planned),
                         sorted(row[0] for row in every))
        # The one that is due comes before what may be left out.
        due = planned[len(check.CHECKS)]
        self.assertIn(due[:2], check.IN_TURN)
        self.assertIsNone(due[2])
        self.assertTrue(all(why_not is None
                            for _, _, why_not in check.plan(gating=False)))

    def test_every_check_is_a_script_that_is_there(self):
        for script, seconds in (check.CHECKS + check.LAST +
                                check.IN_TURN):
            self.assertTrue((ROOT / ".ci" / script).exists(), script)
            self.assertGreater(seconds, 0)


class AssertionsTest(unittest.TestCase):

    def silent(self, text):
        return [case for _, _, case in
                assertions.silent_cases({"a_test.cc": text})]

    def test_a_case_that_only_calls_is_named(self):
        self.assertEqual(self.silent("TEST(A, Silent) { Run(); }\n"
                                     "TEST(A, Says) { EXPECT_EQ(1, 1); }\n"),
                         ["Silent"])

    def test_quoted_and_commented_assertions_are_none(self):
        self.assertEqual(self.silent(
            'TEST_F(A, Silent) {\n  // EXPECT_EQ(1, 1)\n  Run("EXPECT_EQ(");\n'
            '}\n'), ["Silent"])

    def test_a_helper_asserts_if_its_name_says_so(self):
        helpers = ("void ExpectSame(int a) {\n  EXPECT_EQ(a, 1);\n}\n"
                   "int Made() {\n  EXPECT_TRUE(true);\n  return 1;\n}\n")
        self.assertEqual(self.silent(
            helpers + "TEST(A, Says) { ExpectSame(Made()); }\n"
            "TEST(A, Silent) { Made(); }\n"), ["Silent"])


class CompareCommitsTest(unittest.TestCase):

    def facts(self):
        return {"plans": {"1": {"even": "a", "static": "b"}},
                "curves": {"text even": ["0x1p+0"]},
                "metrics": ["steps{job}"],
                "json": {"plan": collect_facts.shape(
                    {"rows": [{"a": 1}, {"a": 2.5, "b": None}]})}}

    def test_a_commit_does_not_differ_from_itself(self):
        self.assertEqual(list(compare_commits.differences(
            self.facts(), self.facts())), [])

    def test_each_change_is_named(self):
        old, new = self.facts(), self.facts()
        new["plans"]["1"]["static"] = "c"
        new["curves"]["text even"] = ["0x1.0000000000001p+0"]
        new["metrics"] = ["steps{job,rank}"]
        new["json"]["plan"] = collect_facts.shape(
            {"rows": [{"a": "1", "c": 1}]})
        self.assertEqual(list(compare_commits.differences(old, new)), [
            "plans 1 static", "curves text even", "metric steps{job,rank} new",
            "metric steps{job} gone", "json plan .rows[].a number to str",
            "json plan .rows[].b gone", "json plan .rows[].c new"])


if __name__ == "__main__":
    case_runner.main()
