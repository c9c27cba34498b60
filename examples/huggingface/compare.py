#!/usr/bin/env python3
"""Compares Evenstep's models with Hugging Face's Llama, both ways.

    evenstep local examples/huggingface/train.yaml --output trained
    evenstep local examples/huggingface/job.yaml --set model.weights=$PWD/trained \\
      --output out
    python3 examples/huggingface/compare.py out --data documents

Weights that Evenstep has trained are loaded by transformers, and weights that
transformers has saved by Evenstep; losses and logits of the same documents are
compared. transformers rounds the angles of its rotary positions to float32,
which is off by 1e-4 at position 3,000; Evenstep does not. So logits are
compared a second time with transformers' angles in float64. The job trains one
document a step with a learning rate that moves nothing, so each row of loss.csv
is the loss of one document. Needs transformers, torch and safetensors; no
network.
"""

import argparse
import contextlib
import csv
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

END = 256  # after the bytes of a document
LARGEST_LOGITS = 1e-4  # difference
HERE = pathlib.Path(__file__).resolve().parent


def load_model(folder, theta=None):
    """What from_pretrained makes of a folder, in float32."""
    config = LlamaConfig.from_pretrained(folder)
    if theta is not None:
        config.rope_parameters["rope_theta"] = theta
    model = LlamaForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


@contextlib.contextmanager
def exact_angles(model):
    """Rotary positions of float64 instead of transformers' float32."""
    rotary = model.model.rotary_emb
    config = model.config
    dim = config.head_dim
    theta = config.rope_parameters["rope_theta"]
    frequency = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)

    def forward(hidden, position_ids):
        angles = position_ids.double().unsqueeze(-1) * frequency
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(hidden.dtype), angles.sin().to(hidden.dtype)

    rounded = rotary.forward
    rotary.forward = forward
    try:
        yield
    finally:
        rotary.forward = rounded


def logits_there(model, text):
    with torch.no_grad():
        return model(torch.tensor([list(text)])).logits[0].float()


def logits_here(evenstep, weights, text):
    """Those of `evenstep generate --logits`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "logits"
        subprocess.run([evenstep, "generate", weights, "--max-tokens", "0",
                        "--logits", path], input=text, check=True,
                       stdout=subprocess.DEVNULL)
        tensors = load_file(path)
    assert tensors["tokens"].tolist() == list(text)
    return tensors["logits"].float()


def loss_there(model, text):
    tokens = torch.tensor(list(text) + [END])
    logits = logits_there(model, list(text) + [END])
    return torch.nn.functional.cross_entropy(logits[:-1], tokens[1:]).item()


def losses_here(output):
    """By the number of trained tokens: a document of n bytes has n."""
    with open(output / "loss.csv", encoding="utf-8") as file:
        return {int(row["trained_tokens"]): float(row["loss"])
                for row in csv.DictReader(file)}


def compare(evenstep, weights, output, texts, model):
    """Largest differences of losses and of logits."""
    losses = losses_here(output)
    assert len({len(text) for text in texts}) == len(texts), "equal sizes"
    assert set(losses) == {len(text) for text in texts}, "other documents"
    loss = worst_of(abs(losses[len(text)] - loss_there(model, text))
                    for text in texts)
    here = [logits_here(evenstep, weights, text) for text in texts]
    with exact_angles(model):
        exact = largest_difference(here, model, texts)
    return {"documents": len(texts), "loss": loss,
            "logits": largest_difference(here, model, texts),
            "logits_with_exact_angles": exact}


def largest_difference(here, model, texts):
    return worst_of((logits - logits_there(model, text)).abs().max().item()
                    for logits, text in zip(here, texts, strict=True))


def worst_of(differences):
    """The largest; a NaN, which is larger than nothing, is an error."""
    found = list(differences)
    if not all(map(math.isfinite, found)):
        raise SystemExit(f"not finite: {found}")
    return max(found)


def random_llama(tied, dtype):
    """A model that predicts something: initial values would hide errors."""
    torch.manual_seed(5)
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=96, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, vocab_size=257, intermediate_size=200,
        rms_norm_eps=1e-6, rope_theta=20000.0, tie_word_embeddings=tied,
        bos_token_id=None, eos_token_id=END, initializer_range=0.15))
    return model.to(dtype)


def theirs(evenstep, tied, dtype, data, texts, folder):
    """Weights that transformers saves, in a job here."""
    saved = folder / "saved"
    random_llama(tied, dtype).save_pretrained(saved)
    words = ["layers=3", "width=96", "heads=6", "kv_heads=2", "mlp_width=200",
             "rope_theta=20000", "norm_epsilon=1e-6", f"weights={saved}"]
    settings = [f"model.{word}" for word in words]
    settings += [f"data.source=text:{data.resolve()}", f"steps={len(texts)}"]
    command = [evenstep, "local", HERE / "job.yaml", "--output", folder / "out",
               "--quiet"]
    for setting in settings:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return compare(evenstep, saved, folder / "out", texts, load_model(saved))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path, help="folder of the job")
    parser.add_argument("--data", type=pathlib.Path, required=True,
                        help="folder of the job's documents")
    parser.add_argument("--evenstep", default=shutil.which("evenstep"),
                        help="the program (that of PATH)")
    options = parser.parse_args()
    texts = [path.read_bytes() for path in sorted(options.data.iterdir())
             if not path.name.startswith(".")]
    report = {"trained here": compare(options.evenstep, options.output,
                                      options.output, texts,
                                      load_model(options.output))}
    print(json.dumps(report), flush=True)
    for tied, dtype in ((False, torch.float32), (True, torch.float32),
                        (False, torch.bfloat16)):
        name = f"saved there, {'tied, ' if tied else ''}{dtype}"
        with tempfile.TemporaryDirectory() as folder:
            report[name] = theirs(options.evenstep, tied, dtype, options.data,
                                  texts, pathlib.Path(folder))
        print(json.dumps({name: report[name]}), flush=True)
    # A comparison that could not fail would prove nothing.
    wrong = compare(options.evenstep, options.output, options.output, texts,
                    load_model(options.output, theta=1000.0))
    print(json.dumps({"with a wrong rope_theta": wrong}))
    worst = {key: max(one[key] for one in report.values())
             for key in ("loss", "logits", "logits_with_exact_angles")}
    print(json.dumps({"largest_difference": worst}))
    # Rounded angles matter more where attention is sharp, as with large values.
    good = (worst["loss"] < 1e-5 and
            report["trained here"]["logits"] < LARGEST_LOGITS and
            worst["logits_with_exact_angles"] < LARGEST_LOGITS)
    return 0 if good and wrong["logits"] > 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
