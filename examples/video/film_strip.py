#!/usr/bin/env python3
"""Lays clips under each other, frame by frame, as one picture (PNG).

    film_strip.py --out strip.png before.gif after.gif /tmp/evenstep-clips

A clip is an animated picture of `evenstep generate`, or a folder of latents, of
which the first clip with the frames and the size of the picture is taken.
Python's own library alone.
"""

import argparse
import json
import pathlib
import struct
import zlib

GAP = 4  # pixels between frames
WHITE = (255, 255, 255)


class Bits:
    """Numbers of a few bits, the lowest first."""

    def __init__(self, data):
        self.data = int.from_bytes(data, "little")
        self.left = 8 * len(data)

    def take(self, count):
        value = self.data & ((1 << count) - 1)
        self.data >>= count
        self.left -= count
        return value


def unpack_lzw(data, code_bits):
    clear = 1 << code_bits
    bits = Bits(data)
    table, width, last, out = [], 0, None, bytearray()
    while bits.left >= (width or code_bits + 1):
        code = bits.take(width or code_bits + 1)
        if code == clear:
            table = [bytes([i]) for i in range(clear)] + [b"", b""]
            width, last = code_bits + 1, None
            continue
        if code == clear + 1:
            break
        entry = table[code] if code < len(table) else last + last[:1]
        if last is not None and len(table) < 4096:
            table.append(last + entry[:1])
        if len(table) == 1 << width and width < 12:
            width += 1
        out += entry
        last = entry
    return bytes(out)


def blocks_at(data, at):
    """The sub-blocks at a place, joined, and the place behind them."""
    joined = b""
    while data[at]:
        joined += data[at + 1:at + 1 + data[at]]
        at += 1 + data[at]
    return joined, at + 1


def read_gif(path):
    """Frames of rows of (red, green, blue); each frame fills the picture."""
    data = path.read_bytes()
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    count = 2 << (flags & 7)
    colours = [tuple(data[13 + 3 * i:16 + 3 * i]) for i in range(count)]
    at, frames = 13 + 3 * count, []
    while data[at] != 0x3B:
        if data[at] == 0x21:  # an extension
            _, at = blocks_at(data, at + 2)
            continue
        packed, end = blocks_at(data, at + 11)
        pixels = unpack_lzw(packed, data[at + 10])
        frames.append([[colours[i] for i in pixels[y * width:(y + 1) * width]]
                       for y in range(height)])
        at = end
    return frames


def colour_of(values):
    bright = [min(255, max(0, round((v + 1) * 127.5))) for v in values[:3]]
    return tuple(bright) if len(bright) == 3 else (bright[0],) * 3


def read_latents(folder, like, scale):
    """The first clip of the frames and the size of `like`, enlarged."""
    side = len(like[0]) // scale, len(like[0][0]) // scale
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for tensor in json.loads(data[8:8 + length]).values():
            if tensor.get("shape", [])[:3] != [len(like), *side]:
                continue
            begin = 8 + length + tensor["data_offsets"][0]
            return [enlarge(frame, scale)
                    for frame in pictures(data, begin, tensor["shape"])]
    raise SystemExit(f"{folder}: no clip of {len(like)} frames of {side}")


def pictures(data, begin, shape):
    frames, height, width, channels = shape
    floats = struct.unpack_from(f"<{frames * height * width * channels}f",
                                data, begin)
    pixels = [colour_of(floats[i:i + channels])
              for i in range(0, len(floats), channels)]
    rows = [pixels[i:i + width] for i in range(0, len(pixels), width)]
    return [rows[i:i + height] for i in range(0, len(rows), height)]


def enlarge(frame, scale):
    return [[pixel for pixel in row for _ in range(scale)]
            for row in frame for _ in range(scale)]


def shrink(frame, by):
    return [row[::by] for row in frame[::by]]


def beside(frames):
    gap = [WHITE] * GAP
    rows = []
    for parts in zip(*frames):
        row = list(parts[0])
        for part in parts[1:]:
            row += gap + part
        rows.append(row)
    return rows


def write_png(path, rows):
    def chunk(kind, content):
        body = kind + content
        return (struct.pack(">I", len(content)) + body +
                struct.pack(">I", zlib.crc32(body)))

    raw = b"".join(b"\0" + bytes(v for pixel in row for v in pixel)
                   for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) +
                     chunk(b"IDAT", zlib.compress(raw, 9)) +
                     chunk(b"IEND", b""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clips", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--pixel-size", type=int, default=8,
                        help="of a latent pixel in the animated pictures")
    parser.add_argument("--every", type=int, default=2,
                        help="show every so many frames")
    parser.add_argument("--shrink", type=int, default=2)
    options = parser.parse_args()
    clips = []
    for path in options.clips:
        clips.append(read_gif(path) if path.suffix == ".gif" else read_latents(
            path, clips[0], options.pixel_size))
    rows = []
    for clip in clips:
        frames = [shrink(frame, options.shrink)
                  for frame in clip[::options.every]]
        if rows:
            rows += [[WHITE] * len(rows[0])] * (2 * GAP)
        rows += beside(frames)
    write_png(options.out, rows)


if __name__ == "__main__":
    main()
