"""Runs unittest cases and writes the XML that tests/run_tests.py counts."""

import os
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


class _XmlResult(unittest.TextTestResult):
    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.cases = []

    def _add(self, test, kind=None, text=""):
        case = ElementTree.Element("testcase", {
            "classname": type(test).__name__,
            "name": getattr(test, "_testMethodName", str(test)),
            "status": "run",
            "result": "skipped" if kind == "skipped" else "completed"})
        if kind:
            ElementTree.SubElement(case, kind, {"message": text})
        self.cases.append(case)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._add(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._add(test, "failure", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self._add(test, "failure", str(err[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._add(test, "skipped", reason)

    def startTest(self, test):
        self.stream.write(f"[{time.strftime('%H:%M:%S')}] ")
        super().startTest(test)


def _xml_path():
    output = os.environ.get("GTEST_OUTPUT", "")
    return output[len("xml:"):] if output.startswith("xml:") else None


def main():
    program = unittest.main(
        module="__main__", exit=False, verbosity=2,
        testRunner=unittest.TextTestRunner(resultclass=_XmlResult))
    path = _xml_path()
    if path:
        root = ElementTree.Element("testsuites")
        root.extend(program.result.cases)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        ElementTree.ElementTree(root).write(path)
    sys.exit(0 if program.result.wasSuccessful() else 1)
