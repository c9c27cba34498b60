// gpt2-trainer: evenstep-trainer with one more model.

#include "evenstep/trainer/trainer_binary.h"
#include "gpt2.h"

int main(int argc, char** argv) {
  return evenstep::trainer::RunTrainerBinary(
      argc, argv, {.models = {{"gpt2", custom_model::MakeGpt2}}});
}
