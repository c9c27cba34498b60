#include "client/cli/generate_command.h"

#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/output_marker.h"
#include "base/status_macros.h"
#include "client/cli/flags.h"
#include "client/cli/local/result_folder.h"
#include "client/cli/local/trainer_mode.h"
#include "client/cli/local/unfinished.h"
#include "client/cli/output_file.h"
#include "client/cli/show/printable_text.h"
#include "jobspec/weights_model.h"

namespace evenstep::cli {
namespace {

using Arguments = std::vector<std::string>;

constexpr char kDefaultPicture[] = "clip.gif";
constexpr int64_t kMaxTextBytes = int64_t{1} << 30;

std::string Absolute(const std::string& path) {
  return std::filesystem::absolute(path).string();
}

absl::StatusOr<bool> IsVideo(const std::string& weights) {
  std::error_code error;
  if (!std::filesystem::exists(weights, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no such weights file: ", weights));
  }
  return jobspec::IsVideoModel(weights);
}

// An error, and what else there is to use.
absl::Status WithHint(const absl::Status& status, const std::string& hint) {
  if (hint.empty()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "\n", hint));
}

void Append(const Arguments& more, Arguments* arguments) {
  arguments->insert(arguments->end(), more.begin(), more.end());
}

Arguments ClipArguments(const GenerateCommand& command) {
  Arguments arguments;
  for (const auto& [flag, value] : {std::pair("--frames", command.frames),
                                    {"--height", command.height},
                                    {"--width", command.width},
                                    {"--steps", command.steps}}) {
    Append({flag, absl::StrCat(value)}, &arguments);
  }
  if (command.untrained) arguments.push_back("--untrained");
  return arguments;
}

Arguments TextArguments(const GenerateCommand& command) {
  Arguments arguments = {"--max-tokens",  absl::StrCat(command.max_tokens),
                         "--temperature", absl::StrCat(command.temperature),
                         "--top-k",       absl::StrCat(command.top_k),
                         "--top-p",       absl::StrCat(command.top_p)};
  if (command.chat) arguments.push_back("--chat");
  if (!command.tokenizer.empty()) {
    Append({"--tokenizer", Absolute(command.tokenizer)}, &arguments);
  }
  if (!command.logits.empty()) {
    Append({"--logits", Absolute(command.logits)}, &arguments);
  }
  return arguments;
}

absl::StatusOr<std::string> PromptOf(Environment& environment,
                                     const GlobalOptions& global,
                                     const GenerateCommand& command) {
  if (command.prompt.has_value()) return *command.prompt;
  if (environment.in == nullptr) {
    return absl::InvalidArgumentError("--prompt: what shall it go on with?");
  }
  if (environment.in_is_terminal) {
    Output(environment, global)
        .Message(
            "Type the prompt, and end it with Ctrl-D. --prompt TEXT gives it "
            "at "
            "once.");
  }
  std::string prompt(std::istreambuf_iterator<char>(*environment.in), {});
  // What a user says ends without the line end that a shell puts there.
  if (command.chat && absl::EndsWith(prompt, "\n")) prompt.pop_back();
  return prompt;
}

class Generation {
 public:
  Generation(Environment& environment, const GlobalOptions& global,
             const GenerateCommand& command, PrivateFolder folder)
      : environment_(environment),
        global_(global),
        output_(environment, global),
        command_(command),
        folder_(std::move(folder)) {}

  absl::Status Run() {
    const std::string unfinished =
        DescribeUnfinished(FindUnfinished(command_.weights));
    const absl::StatusOr<bool> found = IsVideo(command_.weights);
    if (!found.ok()) {
      return WithHint(found.status(), DescribeNoWeights(command_.weights));
    }
    if (!unfinished.empty()) output_.Message(unfinished);
    const bool is_video = *found;
    const Arguments& other =
        is_video ? command_.text_flags : command_.video_flags;
    if (!other.empty()) {
      const auto [these, those] =
          is_video ? std::pair("video", "text") : std::pair("text", "video");
      return absl::InvalidArgumentError(
          absl::StrCat(other.front(), " is of ", those, ", and the weights in ",
                       command_.weights, " are of ", these));
    }
    EVENSTEP_RETURN_IF_ERROR(CheckOutputFile("--logits", command_.logits));
    return is_video ? MakeClip() : MakeText();
  }

 private:
  absl::Status RunMode(const std::string& out, const Arguments& more) {
    Arguments arguments = {
        "generate", "--weights", Absolute(command_.weights), "--out",
        out,        "--seed",    absl::StrCat(command_.seed)};
    Append(more, &arguments);
    return RunTrainerMode(environment_, command_.trainer, folder_.path(),
                          arguments);
  }

  absl::Status MakeClip() {
    const std::string out =
        command_.out.empty() ? kDefaultPicture : command_.out;
    EVENSTEP_RETURN_IF_ERROR(CheckOutputFile("--out", out));
    EVENSTEP_RETURN_IF_ERROR(RunMode(Absolute(out), ClipArguments(command_)));
    MarkOutput(out).IgnoreError();
    if (output_.structured()) {
      output_.Document({{"path", out}});
    } else {
      output_.Text(absl::StrCat(out, "\n"));
    }
    return absl::OkStatus();
  }

  absl::Status MakeText() {
    EVENSTEP_RETURN_IF_ERROR(CheckOutputFile("--out", command_.out));
    EVENSTEP_ASSIGN_OR_RETURN(const std::string prompt,
                              PromptOf(environment_, global_, command_));
    const std::string prompt_path = folder_.path() + "/prompt";
    const std::string text_path = folder_.path() + "/text";
    EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(prompt_path, prompt));
    Arguments arguments = {"--prompt-file", prompt_path};
    Append(TextArguments(command_), &arguments);
    EVENSTEP_RETURN_IF_ERROR(RunMode(text_path, arguments));
    MarkOutput(command_.logits).IgnoreError();
    EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                              ReadWholeFile(text_path, kMaxTextBytes));
    EVENSTEP_ASSIGN_OR_RETURN(
        const std::string report,
        ReadWholeFile(text_path + ".json", kMaxTextBytes));
    return ShowText(prompt, text, report);
  }

  absl::Status ShowText(const std::string& prompt, const std::string& text,
                        const std::string& report) {
    if (!command_.out.empty()) {
      EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(command_.out, text));
      MarkOutput(command_.out).IgnoreError();
    }
    if (output_.structured()) {
      Json json = Json::parse(report, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) {
        return absl::InternalError("the trainer's report is not a JSON object");
      }
      json["prompt"] = prompt;
      json["text"] = text;
      output_.Document(json);
    } else if (command_.out.empty()) {
      output_.Text(absl::StrCat(PrintableText(text), "\n"));
    } else {
      output_.Text(absl::StrCat(command_.out, "\n"));
    }
    return absl::OkStatus();
  }

  Environment& environment_;
  const GlobalOptions& global_;
  Output output_;
  const GenerateCommand& command_;
  const PrivateFolder folder_;
};

// Remembers which flags of a kind were said.
void NoteFlags(CLI::App* app, const std::vector<std::string>& flags,
               std::vector<std::string>* said) {
  for (const std::string& flag : flags) {
    app->get_option(flag)->each(
        [flag, said](const std::string&) { said->push_back(flag); });
  }
}

void AddTextFlags(CLI::App* app, GenerateCommand* command) {
  app->add_option("--prompt", command->prompt,
                  "Text to continue (default: read from stdin)")
      ->type_name("TEXT");
  app->add_flag(
      "--chat", command->chat,
      "Text: treat the prompt as a user's message and generate the answer");
  app->add_option(
         "--max-tokens", command->max_tokens,
         "Text: most tokens to generate; fewer if the model ends the text")
      ->capture_default_str()
      ->type_name("N");
  app->add_option(
         "--temperature", command->temperature,
         "Text: sampling temperature; 0 always takes the most likely token")
      ->capture_default_str()
      ->type_name("NUMBER");
  app->add_option("--top-k", command->top_k,
                  "Text: sample from the N most likely tokens; 0: from all")
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--top-p", command->top_p,
                  "Text: sample from the smallest set of tokens with this "
                  "total probability")
      ->capture_default_str()
      ->type_name("SHARE");
  app->add_option("--tokenizer", command->tokenizer,
                  "Text: SentencePiece model (default: the job's)")
      ->type_name("FILE");
  app->add_option("--logits", command->logits,
                  "Text: also write the logits after every token of the prompt "
                  "(safetensors)")
      ->type_name("FILE");
  NoteFlags(app,
            {"--prompt", "--chat", "--max-tokens", "--temperature", "--top-k",
             "--top-p", "--tokenizer", "--logits"},
            &command->text_flags);
}

void AddVideoFlags(CLI::App* app, GenerateCommand* command) {
  app->add_option("--frames", command->frames, "Video: number of frames")
      ->capture_default_str();
  app->add_option("--height", command->height, "Video: height in latent pixels")
      ->capture_default_str();
  app->add_option("--width", command->width, "Video: width in latent pixels")
      ->capture_default_str();
  app->add_option("--steps", command->steps, "Video: number of sampling steps")
      ->capture_default_str();
  app->add_flag("--untrained", command->untrained,
                "Video: use the job's initial weights, for comparison");
  NoteFlags(app, {"--frames", "--height", "--width", "--steps", "--untrained"},
            &command->video_flags);
}

}  // namespace

void AddGenerateFlags(CLI::App* app, GenerateCommand* command) {
  app->add_option("weights", command->weights,
                  "model.safetensors of a job, or its folder; for text also a "
                  "Llama model saved by Hugging Face")
      ->required()
      ->type_name("");
  app->add_option("--out", command->out,
                  "Output file: an animated GIF for video (clip.gif), the "
                  "bytes for text; without it, text is printed")
      ->type_name("PATH");
  AddSeed(app, &command->seed, "Seed of noise and sampling (0)");
  app->add_option("--trainer", command->trainer,
                  "Trainer binary that contains the model, such as your own "
                  "(the evenstep-trainer beside this program)")
      ->envname("EVENSTEP_TRAINER")
      ->type_name("PATH");
  AddTextFlags(app, command);
  AddVideoFlags(app, command);
}

ExitCode Generate(Environment& environment, const GlobalOptions& global,
                  const GenerateCommand& command) {
  Output output(environment, global);
  auto folder = PrivateFolder::Make();
  if (!folder.ok()) return output.FailHere(folder.status());
  const absl::Status status =
      Generation(environment, global, command, *std::move(folder)).Run();
  return status.ok() ? kExitOk : output.FailHere(status);
}

}  // namespace evenstep::cli
