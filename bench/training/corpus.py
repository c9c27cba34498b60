"""A corpus of documents whose lengths follow a named law (data/length_law.h).

Documents are made of lower-case words, one JSON object a line, so that a
byte-level tokeniser gives exactly the length that was drawn: its bytes and an
end token. The same law, seed and count give the same file.
"""

import json
import random
import subprocess


def draw_lengths(bin_dir, law, count, seed, longest):
    done = subprocess.run([bin_dir / "draw_lengths", law, str(count),
                           str(seed)], capture_output=True, text=True,
                          check=True)
    return [min(longest, max(2, int(line)))
            for line in done.stdout.splitlines()]


def make_text(generator, num_bytes):
    words = []
    size = 0
    while size < num_bytes:
        word = "".join(generator.choices("etaoinshrdlu",
                                         k=generator.randint(2, 9)))
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[:num_bytes]


def write_corpus(path, lengths, seed):
    generator = random.Random(seed)
    with path.open("w", encoding="ascii") as file:
        for length in lengths:
            text = make_text(generator, length - 1)  # and the end token
            file.write(json.dumps({"text": text}) + "\n")
