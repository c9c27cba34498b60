"""Clips of a named law (data/length_law.h) as latents to train on.

The law's sizes are those of real clips, up to 432,000 tokens. Here a clip has an
eighth of their frames and a fifth of either side, rounded, so that it has 6 to
2,160 tokens and the proportions stay. Values are noise: they do not change what
a step costs. The same law, seed, count and least number of frames give the same
file.
"""

import array
import json
import random
import struct
import subprocess

FRAMES_BY, SIDES_BY = 8, 5
CHANNELS = 4  # of a latent; a token is one latent pixel
FILE_CLIPS = 64
MOST_DRAWN = 1 << 16


def scaled(size, by):
    return max(1, round(size / by))


def draw_sizes(bin_dir, law, count, seed):
    """Of the law's own clips; more of them begin with the same ones."""
    done = subprocess.run([bin_dir / "draw_lengths", law, str(count),
                           str(seed)], capture_output=True, text=True,
                          check=True)
    return [tuple(map(int, line.split()[1:]))
            for line in done.stdout.splitlines()]


def draw_clips(bin_dir, law, count, seed, least_frames=1):
    """(frames, height, width) in tokens. Clips of fewer frames are left out."""
    drawn = count
    while drawn <= MOST_DRAWN:
        sizes = draw_sizes(bin_dir, law, drawn, seed)
        clips = [(scaled(frames, FRAMES_BY), scaled(height, SIDES_BY),
                  scaled(width, SIDES_BY)) for frames, height, width in sizes]
        clips = [clip for clip in clips if clip[0] >= least_frames]
        if len(clips) >= count:
            return clips[:count]
        drawn *= 2
    raise SystemExit(f"law {law}: of {drawn // 2} clips fewer than {count} have "
                     f"{least_frames} frames")


def write_file(path, tensors):
    """One safetensors file of float32 tensors: {name: (shape, values)}."""
    header, offset = {}, 0
    for name, (shape, values) in tensors.items():
        end = offset + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(values.tobytes())


def write_clips(folder, clips, seed):
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(seed)
    for first in range(0, len(clips), FILE_CLIPS):
        tensors = {}
        for index, shape in enumerate(clips[first:first + FILE_CLIPS], first):
            frames, height, width = shape
            count = frames * height * width * CHANNELS
            values = array.array("f", (generator.uniform(-1, 1)
                                       for _ in range(count)))
            tensors[f"clip-{index:05}"] = [*shape, CHANNELS], values
        write_file(folder / f"clips-{first // FILE_CLIPS:03}.safetensors",
                   tensors)
