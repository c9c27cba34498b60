// gpt2-trainer: evenstep-trainer with one more model.

#include "examples/custom_model/gpt2.h"
#include "worker/trainer/trainer_binary.h"

int main(int argc, char** argv) {
  return evenstep::trainer::RunTrainerBinary(
      argc, argv, {.models = {{"gpt2", custom_model::MakeGpt2}}});
}
