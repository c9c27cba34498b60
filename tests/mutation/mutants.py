"""Makes mutants of a C++ source text: one small change each.

Works on tokens, not on a syntax tree, and relies on the tree's clang-format
style: a binary operator has a space on both sides, a template bracket has not.
A mutant that does not compile is not a mutant; the runner drops it. The same text
gives the same mutants, in the same order.
"""

import collections
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<skip>//[^\n]*|/\*.*?\*/|\s+)
  | (?P<preprocessor>^\#(?:[^\n\\]|\\.)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
  | (?P<number>(?:0x[0-9a-fA-F']+|[0-9][0-9']*(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)
      [uUlLfF]*)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator><<=|>>=|<=>|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||::|[-+*/%&|^]=|.)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

OPEN, CLOSE = set("([{"), set(")]}")
COMPARISONS = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="),
    "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/",
              "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&"}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "^=": "&="}
LOGIC = {"&&": "||", "||": "&&"}
# What binds less than an operand of the operator, to its left or right.
WEAKEST = {",", ";", "?", ":", "=", "return", "<-", "+=", "-=", "*=", "/=",
           "^="}
LEVELS = [{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="},
          {"<", "<=", ">", ">="}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}]
# Their arguments are text for people.
MESSAGES = {"StrCat", "Broken", "StrJoin"}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    begin: int

    @property
    def end(self):
        return self.begin + len(self.text)


@dataclasses.dataclass(frozen=True)
class Mutant:
    kind: str      # term, comparison, sign, constant, logic, check
    begin: int
    end: int
    text: str      # in place of source[begin:end]
    line: int
    column: int
    source: str    # the line as it was
    note: str
    key: str = ""  # the same wherever the line moves to


def tokenize(source):
    tokens = []
    for match in TOKEN.finditer(source):
        if match.lastgroup not in ("skip", "preprocessor"):
            tokens.append(Token(match.lastgroup, match.group(), match.start()))
    return tokens


class Maker:
    """All mutants of one text."""

    def __init__(self, source):
        self.source = source
        self.tokens = tokenize(source)
        self.binary = [self._is_binary(i) for i in range(len(self.tokens))]
        self.mutants = []
        self.quiet = self._message_tokens()

    def make(self):
        for i, token in enumerate(self.tokens):
            if i in self.quiet:
                continue
            if token.kind == "number":
                self._constant(token)
            elif token.kind == "name":
                self._name(i, token)
            elif token.kind == "operator":
                self._operator(i, token)
        unique = {}
        for mutant in self.mutants:
            changed = (self.source[:mutant.begin] + mutant.text +
                       self.source[mutant.end:])
            if changed != self.source:
                unique.setdefault(re.sub(r"\s+", "", changed), mutant)
        counts = collections.Counter()
        keyed = []
        for mutant in unique.values():
            key = f"{mutant.source} [{mutant.note}]"
            counts[key] += 1
            keyed.append(dataclasses.replace(
                mutant, key=f"{key} #{counts[key]}"))
        return keyed

    def _add(self, kind, begin, end, text, note):
        line = self.source.count("\n", 0, begin) + 1
        start = self.source.rfind("\n", 0, begin) + 1
        stop = self.source.find("\n", begin)
        self.mutants.append(Mutant(
            kind, begin, end, text, line, begin - start + 1,
            self.source[start:stop].strip(), note))

    def _is_binary(self, i):
        token = self.tokens[i]
        if token.kind != "operator" or i == 0 or i + 1 == len(self.tokens):
            return False
        before = self.source[token.begin - 1]
        after = self.source[token.end]
        return before.isspace() and after.isspace()

    def _message_tokens(self):
        quiet = set()
        for i, token in enumerate(self.tokens[:-1]):
            following = self.tokens[i + 1].text
            if token.text in MESSAGES and following == "(":
                quiet.update(range(i, self._close(i + 1)))
            # Types and their constants: nothing is computed there.
            if token.text in ("namespace", "using", "static_assert"):
                while self.tokens[i].text not in (";", "{"):
                    quiet.add(i)
                    i += 1
        return quiet

    def _close(self, i):
        """The token after the bracket that closes the one at i."""
        depth = 0
        for k in range(i, len(self.tokens)):
            text = self.tokens[k].text
            depth += (text in OPEN) - (text in CLOSE)
            if depth == 0:
                return k + 1
        return len(self.tokens)

    def _stops(self, i, weaker):
        token = self.tokens[i]
        if token.text in WEAKEST and token.text != "<-":
            return True
        return self.binary[i] and token.text in weaker

    def _right_end(self, i, weaker):
        """The token after the operand that follows the operator at i."""
        k = i + 1
        while k < len(self.tokens):
            text = self.tokens[k].text
            if text in CLOSE or self._stops(k, weaker):
                return k
            k = self._close(k) if text in OPEN else k + 1
        return k

    def _left_begin(self, i, weaker):
        """The first token of the operand before the operator at i."""
        depth = 0
        k = i
        while k > 0:
            text = self.tokens[k - 1].text
            if text in CLOSE:
                depth += 1
            elif text in OPEN:
                if depth == 0:
                    return k
                depth -= 1
            elif depth == 0 and self._stops(k - 1, weaker):
                return k
            k -= 1
        return k

    def _text(self, begin, end):
        """Of tokens [begin, end)."""
        return self.source[self.tokens[begin].begin:self.tokens[end - 1].end]

    def _constant(self, token):
        text = token.text.replace("'", "")
        match = re.fullmatch(r"([0-9]+)([uUlL]*)", text)
        if match:
            self._add("constant", token.begin, token.end,
                      f"{int(match[1]) + 1}{match[2]}",
                      f"{token.text} -> {int(match[1]) + 1}")
        elif re.fullmatch(r"[0-9.]+(e[+-]?[0-9]+)?", text):
            changed = repr(float(text) * 2 + (float(text) == 0))
            self._add("constant", token.begin, token.end, changed,
                      f"{token.text} -> {changed}")

    def _name(self, i, token):
        swaps = {"true": "false", "false": "true"}
        if token.text in swaps:
            changed = swaps[token.text]
            self._add("constant", token.begin, token.end, changed,
                      f"{token.text} -> {changed}")
        elif token.text in ("max", "min") and self.tokens[i - 1].text == "::":
            self._choose(i)
        elif token.text == "EVENSTEP_RETURN_IF_ERROR":
            end = self._close(i + 1)
            inner = self._text(i + 2, end - 1)
            self._add("check", token.begin, self.tokens[end - 1].end,
                      f"(void)({inner})", "the error is ignored")
        elif token.text == "continue" and self.tokens[i + 1].text == ";":
            self._add("check", token.begin, token.end, "", "continue left out")

    def _choose(self, i):
        """std::max(a, b): a alone, b alone, and min."""
        name = self.tokens[i]
        other = "min" if name.text == "max" else "max"
        self._add("comparison", name.begin, name.end, other,
                  f"{name.text} -> {other}")
        k = i + 1
        while self.tokens[k].text != "(":  # over a template argument
            k += 1
        end = self._close(k)
        comma = self._right_end(k, set())
        if self.tokens[comma].text != ",":
            return
        first, second = self._text(k + 1, comma), self._text(comma + 1, end - 1)
        begin = self.tokens[i - 2].begin
        for kept in (first, second):
            self._add("term", begin, self.tokens[end - 1].end, f"({kept})",
                      f"only {_short(kept)} of std::{name.text}")

    def _operator(self, i, token):
        text = token.text
        if self.binary[i]:
            for changed in COMPARISONS.get(text, ()):
                self._change("comparison", token, changed)
            if text in ARITHMETIC:
                self._change("sign", token, ARITHMETIC[text])
            if text in LOGIC:
                self._change("logic", token, LOGIC[text])
            self._leave_out(i)
        if text in ASSIGNMENTS:
            self._change("sign", token, ASSIGNMENTS[text])
            self._leave_out_statement(i)
        elif text in ("++", "--"):
            self._change("sign", token, "--" if text == "++" else "++")
        elif text == "!" and not self.binary[i]:
            self._add("logic", token.begin, token.end, "", "! left out")
        elif text == "-" and not self.binary[i]:
            self._add("sign", token.begin, token.end, "", "- left out")
        elif text == "?" and self.binary[i]:
            self._always(i)

    def _change(self, kind, token, changed):
        self._add(kind, token.begin, token.end, changed,
                  f"{token.text} -> {changed}")

    def _leave_out(self, i):
        """a + b: b alone and a alone; a - b: a alone."""
        text = self.tokens[i].text
        level = next((k for k, of in enumerate(LEVELS) if text in of), None)
        if level is None or text in ("==", "!=", "<", "<=", ">", ">="):
            return
        weaker = set().union(*LEVELS[:level + 1])
        right_end = self._right_end(i, weaker)
        right = self._text(i + 1, right_end)
        self._add("term", self.tokens[i - 1].end,
                  self.tokens[right_end - 1].end, "",
                  f"without {text} {_short(right)}")
        if text in ("+", "*", "&&", "||"):
            left_begin = self._left_begin(i, set().union(*LEVELS[:level])
                                          | ({"-", "/", "%"} & weaker))
            left = self._text(left_begin, i)
            self._add("term", self.tokens[left_begin].begin,
                      self.tokens[i + 1].begin, "",
                      f"without {_short(left)} {text}")

    def _leave_out_statement(self, i):
        begin = self._left_begin(i, set())
        end = self._right_end(i, set())
        if self.tokens[end].text != ";":
            return
        statement = self._text(begin, end)
        self._add("term", self.tokens[begin].begin, self.tokens[end - 1].end,
                  "", f"without {_short(statement)}")

    def _always(self, i):
        """c ? a : b: always a, and always b."""
        colon = i + 1
        depth = 0
        while self.tokens[colon].text != ":" or depth > 0:
            text = self.tokens[colon].text
            depth += (text == "?") - (text == ":")
            colon = self._close(colon) if text in OPEN else colon + 1
        end = colon + 1
        while self.tokens[end].text not in CLOSE | {",", ";"}:
            text = self.tokens[end].text
            end = self._close(end) if text in OPEN else end + 1
        first, second = self._text(i + 1, colon), self._text(colon + 1, end)
        self._add("logic", self.tokens[colon + 1].begin,
                  self.tokens[end - 1].end, first, f"always {_short(first)}")
        self._add("logic", self.tokens[i + 1].begin,
                  self.tokens[colon - 1].end, second,
                  f"always {_short(second)}")


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."


def code_of(source):
    """Without comments and spaces."""
    return " ".join(token.text for token in tokenize(source))


def make_mutants(source):
    return Maker(source).make()


def apply(source, mutant):
    return source[:mutant.begin] + mutant.text + source[mutant.end:]
