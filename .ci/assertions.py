#!/usr/bin/env python3
"""Names every GoogleTest case that asserts nothing; fails if there is one.

A case asserts if its body has EXPECT_..., ASSERT_..., FAIL() or ADD_FAILURE(),
or calls a function of a test or testing file that does, directly or through
others, and whose name says so: Expect..., Check... or Assert... What asserts
its own set-up alone does not count.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATTERNS = ["*_test.cc", "*fixture*.h", "*testing/*.h", "*testing/*.cc",
            "*fake*.h", "*fake*.cc", "*suite*.h", "*suite*.cc",
            "*expect*.h", "*expect*.cc"]
ASSERTION = re.compile(r"\b(EXPECT_\w+|ASSERT_\w+|FAIL|ADD_FAILURE)\s*\(")
CASE = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)\s*\{",
                  re.MULTILINE)
FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^;{}]*\)\s*"
                      r"(?:const|override|noexcept|\s)*\{")
CALL = re.compile(r"\b([A-Za-z_]\w*)\s*[(<]")
SAYS_SO = re.compile(r"(Expect|Check|Assert)")
KEYWORDS = {"if", "for", "while", "switch", "catch", "return", "sizeof"}
LITERAL = re.compile(r'R"(\w*)\((.*?)\)\1"|//[^\n]*|/\*.*?\*/|'
                     r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])+'", re.DOTALL)


def without_literals(text):
    """Comments and quoted text are blank, so that braces match."""
    return LITERAL.sub(lambda m: '""' if m[0][0] in 'R"' else " ", text)


def body(text, opening):
    depth = 0
    for i in range(opening, len(text)):
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return text[opening:i]
    return text[opening:]


def calls(text):
    return set(CALL.findall(text)) - KEYWORDS


def asserting_functions(texts):
    """Names of functions that assert, or call one that does."""
    bodies = {}
    for text in texts:
        for match in FUNCTION.finditer(text):
            if match[1] not in KEYWORDS:
                bodies.setdefault(match[1], []).append(
                    body(text, match.end() - 1))
    asserting = {name for name, found in bodies.items()
                 if any(ASSERTION.search(b) for b in found)}
    while True:
        more = {name for name, found in bodies.items()
                if name not in asserting and
                any(calls(b) & asserting for b in found)}
        if not more:
            return asserting
        asserting |= more


def silent_cases(texts):
    """(Path, suite, case) of what asserts nothing, of {path: text}."""
    plain = {path: without_literals(text) for path, text in texts.items()}
    asserting = asserting_functions(plain.values())
    for path, text in plain.items():
        for match in CASE.finditer(text):
            inside = body(text, match.end() - 1)
            if ASSERTION.search(inside):
                continue
            if not any(map(SAYS_SO.match, calls(inside) & asserting)):
                yield path, match[1], match[2]


def main():
    listed = subprocess.run(["git", "ls-files", *PATTERNS], cwd=ROOT, text=True,
                            check=True, capture_output=True).stdout.split()
    texts = {path: (ROOT / path).read_text() for path in listed}
    silent = list(silent_cases(texts))
    for path, suite, case in silent:
        print(f"{path}: {suite}.{case} asserts nothing")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
