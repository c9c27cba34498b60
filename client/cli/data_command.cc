#include "client/cli/data_command.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/output_marker.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/cli/job_source.h"
#include "client/cli/output_file.h"
#include "client/cli/show/data_report.h"
#include "client/cli/show/index_progress.h"
#include "client/cli/show/printable_text.h"
#include "client/convert.h"
#include "data/latents/latents_dataset.h"
#include "data/megatron/megatron_writer.h"
#include "data/sample_rules.h"
#include "data/source_kind.h"
#include "data/text/tokenizer.h"
#include "jobspec/job_spec.h"
#include "jobspec/job_warnings.h"
#include "jobspec/open_data.h"
#include "planner/limits.h"
#include "wire/data_summary_proto.h"

namespace evenstep::cli {
namespace {

constexpr absl::string_view kLatents = "latents:";

using data::Dataset;
using data::DatasetOptions;

// A source, with the rules that a job has if it says none; or the data of a job
// file, by its rules.
struct Inspected {
  DatasetOptions rules;
  std::optional<jobspec::JobSpec> job;
};

absl::StatusOr<jobspec::JobSpec> ReadSpec(const std::string& file) {
  EVENSTEP_ASSIGN_OR_RETURN(const client::SubmitOptions job, ReadJob(file, ""));
  jobspec::ParseOptions options;
  options.name = job.file_name;
  options.base_dir = job.base_dir;
  options.costs = jobspec::CostsWanted::kLeaveOut;
  return jobspec::ParseJobFile(job.job_yaml, options);
}

absl::Status CheckPatch(const InspectDataCommand& command,
                        const std::string& source) {
  if (command.patch == 0 || absl::StartsWith(source, kLatents)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--patch is of ", kLatents, "PATH, not of ", source));
}

absl::StatusOr<Inspected> WhatToInspect(const InspectDataCommand& command) {
  Inspected inspected;
  jobspec::JobSpec spec;  // with a job's defaults
  const std::string source = data::TextIfPath(command.what);
  const bool is_job = data::FindSourceKind(source) == nullptr;
  if (!is_job) {
    spec.data.source = source;
    spec.data.max_length = 0;
  } else {
    std::error_code error;
    if (command.what != "-" && !std::filesystem::exists(command.what, error)) {
      const absl::Status none = data::ExplainNoKind(command.what);
      if (data::LooksLikeSource(command.what)) return none;
      return absl::InvalidArgumentError(
          absl::StrCat("no such job file, and ", none.message()));
    }
    EVENSTEP_ASSIGN_OR_RETURN(spec, ReadSpec(command.what));
  }
  if (!command.tokenizer.empty()) spec.data.tokenizer = command.tokenizer;
  if (command.max_length > 0) spec.data.max_length = command.max_length;
  EVENSTEP_RETURN_IF_ERROR(CheckPatch(command, spec.data.source));
  if (command.patch > 0) spec.model.patch = command.patch;
  inspected.rules = jobspec::ToDatasetOptions(spec);
  if (is_job) inspected.job = spec;
  return inspected;
}

// All samples that can be read, however long. INVALID_ARGUMENT where there is
// nothing at the path.
absl::StatusOr<std::unique_ptr<Dataset>> OpenAll(Environment& environment,
                                                 const GlobalOptions& global,
                                                 DatasetOptions options) {
  options.max_length = planner::kMaxLengthTokens;
  options.on_too_long = data::OnTooLong::kSkip;
  options.on_bad_sample = data::OnBadSample::kSkip;
  IndexProgressView progress(environment, global.quiet);
  options.progress = progress.Callback();
  // What the library would log of its data is said in the answer's own words.
  SetLogLevel(LogLevel::kError);
  environment.ends_at_once = true;  // until indexing begins
  absl::StatusOr<std::unique_ptr<Dataset>> opened = data::OpenDataset(options);
  progress.Finish();
  environment.ends_at_once = true;
  if (!absl::IsNotFound(opened.status())) return opened;
  return absl::InvalidArgumentError(opened.status().message());
}

// Those of `notes` that are shown.
std::vector<std::string> Shown(absl::Span<const std::string> notes,
                               const InspectDataCommand& command) {
  if (!command.list_bad) notes = notes.subspan(0, data::kMostNamedSamples);
  return {notes.begin(), notes.end()};
}

// By opening the data again as a rank of the job would.
// CANCELLED: interrupted.
absl::StatusOr<HeldOutReport> MakeHeldOutReport(const jobspec::JobSpec& job,
                                                IndexProgressView* progress) {
  HeldOutReport report;
  report.source = job.evaluation.source;
  const absl::StatusOr<jobspec::OpenedData> data =
      jobspec::OpenData(job, progress->Callback());
  progress->Finish();
  if (absl::IsCancelled(data.status())) return data.status();
  if (!data.ok()) {
    report.refused = std::string(data.status().message());
    return report;
  }
  report.num_samples = data->held_out->summary().num_samples;
  report.num_tokens = data->held_out->summary().total_tokens;
  report.job = client::FromProto(wire::ToProto(*data));
  return report;
}

// As the ranks of the job warn; of a source, what needs no job.
std::vector<std::string> WarningsOf(const Inspected& inspected,
                                    const Dataset& dataset,
                                    const DataReport& report) {
  if (report.held_out && report.held_out->refused.empty()) {
    return report.held_out->job.warnings;
  }
  jobspec::DataFacts facts;
  facts.unread = dataset.summary().unread;
  facts.total_tokens = report.num_tokens - report.tokens_cut;
  facts.tokens_left_out = report.tokens_cut;
  if (!inspected.job) return jobspec::JobWarnings(jobspec::JobSpec(), facts);
  const jobspec::JobSpec& job = *inspected.job;
  facts.num_samples = report.num_samples;
  if (job.data.on_too_long == data::OnTooLong::kSkip) {
    facts.num_samples -= report.num_too_long;
  }
  facts.longest = std::min(report.longest, job.data.max_length);
  facts.num_evaluated = job.evaluation.samples;
  return jobspec::JobWarnings(job, facts);
}

// What `data tokenize` did.
struct Tokenized {
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  int64_t num_bad = 0;
};

absl::Status CheckUnmasked(const Dataset& dataset, int64_t document) {
  const int64_t length = dataset.Length(document);
  if (dataset.TrainedTokens(document) == length - 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      dataset.Name(document), " has ", dataset.TrainedTokens(document),
      " trained tokens of ", length,
      "; Megatron's files hold no masks, so train on it as text:"));
}

absl::Status CheckBad(const Dataset& dataset,
                      const TokenizeDataCommand& command) {
  const int64_t num_bad = dataset.summary().num_bad;
  if (num_bad == 0 || command.skip_bad) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(Counted(num_bad, "bad sample"), " in ", command.source, ": ",
                   data::NameFirst(dataset.BadSamples(), num_bad),
                   "; --skip-bad leaves them out"));
}

absl::StatusOr<Tokenized> Tokenize(Environment& environment,
                                   const GlobalOptions& global,
                                   const TokenizeDataCommand& command) {
  for (const char* const ending : {".bin", ".idx"}) {
    EVENSTEP_RETURN_IF_ERROR(CheckReplaces("--out", command.out + ending));
  }
  DatasetOptions options;
  options.source = command.source;
  options.tokenizer = command.tokenizer;
  EVENSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset,
                            OpenAll(environment, global, options));
  EVENSTEP_RETURN_IF_ERROR(CheckBad(*dataset, command));
  environment.ends_at_once = false;
  EVENSTEP_ASSIGN_OR_RETURN(
      auto writer, data::MegatronWriter::Create(
                       command.out, data::MegatronTypeFor(dataset->Vocab())));
  for (int64_t i = 0; i < dataset->summary().num_samples; ++i) {
    if (environment.interrupted.stop_requested()) {
      return absl::CancelledError("interrupted");
    }
    EVENSTEP_RETURN_IF_ERROR(CheckUnmasked(*dataset, i));
    EVENSTEP_ASSIGN_OR_RETURN(const data::SampleTokens sample,
                              dataset->Read(i));
    EVENSTEP_RETURN_IF_ERROR(writer.AddDocument(sample.tokens));
  }
  const Tokenized done = {writer.num_documents(), writer.num_tokens(),
                          dataset->summary().num_bad};
  EVENSTEP_RETURN_IF_ERROR(std::move(writer).Finish());
  MarkOutput(command.out + ".bin").IgnoreError();
  MarkOutput(command.out + ".idx").IgnoreError();
  return done;
}

}  // namespace

void AddInspectDataFlags(CLI::App* app, InspectDataCommand* command) {
  app->add_option(
         "source", command->what,
         absl::StrCat("A source (", data::SourceForms(), "), or a job file"))
      ->required()
      ->type_name("");
  app->add_option("--tokenizer", command->tokenizer,
                  "SentencePiece model for text (default: bytes)")
      ->type_name("FILE");
  app->add_option("--max-length", command->max_length,
                  "Longest sample of the job, in tokens")
      ->check(CLI::Range(int64_t{1}, planner::kMaxLengthTokens).description(""))
      ->type_name("TOKENS");
  app->add_option("--patch", command->patch,
                  "For latents: height and width of a token in latent pixels "
                  "(1, or the job's)")
      ->check(CLI::Range(1, data::kMaxPatch).description(""))
      ->type_name("N");
  app->add_flag("--list-bad", command->list_bad,
                "List all bad samples, not only the first five");
}

void AddTokenizeDataFlags(CLI::App* app, TokenizeDataCommand* command) {
  app->add_option("source", command->source, "Text: text:PATH")
      ->required()
      ->type_name("");
  app->add_option("--tokenizer", command->tokenizer,
                  "SentencePiece model (default: bytes)")
      ->type_name("FILE");
  app->add_option("--out", command->out, "Writes PREFIX.bin and PREFIX.idx")
      ->required()
      ->type_name("PREFIX");
  app->add_flag("--skip-bad", command->skip_bad,
                "Skip bad samples instead of failing");
}

ExitCode InspectData(Environment& environment, const GlobalOptions& global,
                     const InspectDataCommand& command) {
  Output output(environment, global);
  environment.ends_at_once = true;
  absl::StatusOr<Inspected> inspected = WhatToInspect(command);
  if (!inspected.ok()) return output.FailHere(inspected.status());
  inspected->rules.may_be_empty = command.list_bad;
  const auto dataset = OpenAll(environment, global, inspected->rules);
  if (!dataset.ok()) return output.FailHere(dataset.status());
  DataReport report = MakeDataReport(**dataset, inspected->rules);
  report.bad_samples = Shown((*dataset)->BadSamples(), command);
  report.json_files = (*dataset)->LeftOutJson(
      /*foreign=*/false, command.list_bad ? std::numeric_limits<size_t>::max()
                                          : data::kMostNamedSamples);
  report.is_job = inspected->job.has_value();
  if (inspected->job && inspected->job->evaluation.enabled()) {
    IndexProgressView progress(environment, global.quiet);
    auto held_out = MakeHeldOutReport(*inspected->job, &progress);
    if (!held_out.ok()) return output.FailHere(held_out.status());
    report.held_out = *std::move(held_out);
  }
  report.warnings = WarningsOf(*inspected, **dataset, report);
  if (output.structured()) {
    output.Document(ToJson(report));
  } else {
    const int columns = environment.columns ? environment.columns() : 80;
    output.Text(PrintableText(FormatDataReport(report, columns)));
  }
  return kExitOk;
}

ExitCode TokenizeData(Environment& environment, const GlobalOptions& global,
                      const TokenizeDataCommand& command) {
  Output output(environment, global);
  const absl::StatusOr<Tokenized> done = Tokenize(environment, global, command);
  if (!done.ok()) return output.FailHere(done.status());
  if (output.structured()) {
    output.Document({{"documents", done->num_documents},
                     {"tokens", done->num_tokens},
                     {"bad", done->num_bad},
                     {"data", command.out + ".bin"},
                     {"index", command.out + ".idx"}});
    return kExitOk;
  }
  output.Text(absl::StrCat(done->num_documents, " documents, ",
                           done->num_tokens, " tokens: ", command.out, ".bin, ",
                           command.out, ".idx\n"));
  return kExitOk;
}

}  // namespace evenstep::cli
