#!/usr/bin/env python3
"""Loads trained weights into Hugging Face's Llama and compares losses.

    evenstep local examples/huggingface/job.yaml --output out
    python3 examples/huggingface/compare.py out --data documents

The job trains one document a step with a learning rate that moves nothing, so
each row of loss.csv is the loss of one document under the weights that it
leaves behind. Needs transformers, torch and safetensors; no network.
"""

import argparse
import csv
import json
import pathlib
import sys

import torch
from safetensors import safe_open
from transformers import LlamaConfig, LlamaForCausalLM

END = 256  # after the bytes of a document


def load_model(path):
    """The model of a weights file, its sizes from the file's metadata."""
    with safe_open(path, "pt") as file:
        sizes = {name.removeprefix("evenstep.model."): int(value)
                 for name, value in file.metadata().items()
                 if name.startswith("evenstep.model.")}
        weights = {name: file.get_tensor(name) for name in file.keys()}
    config = LlamaConfig(
        hidden_size=sizes["width"], num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"], vocab_size=sizes["vocab"],
        intermediate_size=weights["model.layers.0.mlp.gate_proj.weight"].shape[0],
        rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=END,
        attn_implementation="eager")
    model = LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    return model.eval()


def loss_of(model, text):
    tokens = torch.tensor([list(text) + [END]])
    with torch.no_grad():
        logits = model(tokens).logits[0].float()
    return torch.nn.functional.cross_entropy(logits[:-1], tokens[0, 1:]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path, help="folder of the job")
    parser.add_argument("--data", type=pathlib.Path, required=True,
                        help="folder of the job's documents")
    parser.add_argument("--save", help="write a Hugging Face model folder")
    options = parser.parse_args()
    model = load_model(options.output / "model.safetensors")
    with open(options.output / "loss.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    # A document of n bytes has n trained tokens.
    texts = {path.stat().st_size: path.read_bytes()
             for path in options.data.iterdir()
             if not path.name.startswith(".")}
    worst = 0
    for row in rows:
        there = loss_of(model, texts[int(row["trained_tokens"])])
        print(f"step {row['step']}: {row['loss']} here, {there:.8g} there")
        worst = max(worst, abs(float(row["loss"]) - there))
    print(json.dumps({"rows": len(rows), "largest_difference": worst}))
    if options.save:
        model.save_pretrained(options.save)
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
