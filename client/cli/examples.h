#ifndef EVENSTEP_CLIENT_CLI_EXAMPLES_H_
#define EVENSTEP_CLIENT_CLI_EXAMPLES_H_

// What the help of each command ends with. Used by app.cc alone.

namespace evenstep::cli {

inline constexpr char kExamples[] = R"(Examples:
  evenstep local --data text:/usr/include     train a small model here and now
  evenstep plan --lengths wikipedia --gpus 64 compare policies, no GPU needed
  evenstep submit job.yaml                    train on a cluster, and wait
  evenstep submit job.yaml --set steps=500 --no-wait
  evenstep logs -f JOB                        follow the ranks' logs

Progress counts the steps done. A step's own number, in logs, describe and
loss.csv, counts from 0: the first one is step 0.)";

inline constexpr char kSubmitExamples[] = R"(Examples:
  evenstep submit job.yaml
  evenstep submit --preset tiny --set data.source=text:/data/books --no-wait
  id=$(evenstep submit job.yaml --no-wait) && evenstep wait "$id"

The first line on stdout is the job's id, printed as soon as the job is stored.
Ctrl-C detaches; the job keeps running.)";

inline constexpr char kLocalExamples[] = R"(Examples:
  evenstep local --data text:/usr/include
  evenstep local --data ~/notes --steps 200 --output notes-model
  evenstep local job.yaml --ranks 2 --policy static
  evenstep local --data text:. --set data.max_length=8192

Writes model.safetensors, config.json (text models), loss.csv, loss.json,
summary.json, job.yaml and logs/ to the output folder. Results of an earlier run
there move to previous-1 (-2, ...) in it. Ctrl-C stops the job after its current
step and keeps the weights. A second Ctrl-C does not wait for that step: the
weights of the step before are kept. SIGTERM does the same as Ctrl-C.)";

inline constexpr char kPlanExamples[] = R"(Examples:
  evenstep plan --lengths wikipedia --gpus 64
  evenstep plan --lengths lengths.txt --gpus 64 --report plan.html
  evenstep plan --data text:/data/books --samples 64 --gpus 8 --policy even
  evenstep plan --lengths long --gpus-per-node 7,8 --sync per_round -o json
  evenstep plan --lengths - --gpus 8 --costs flexsp-7b-a100 --show-plan <lengths

Times are predictions of a cost model. Exit code 5: no policy has a plan; the
message says what to change.)";

inline constexpr char kProfileExamples[] = R"(Examples:
  evenstep profile job.yaml                    store costs of the job's model
  evenstep local job.yaml --costs profile      plan with them
  evenstep profile --preset small --out small-profile.yaml
  evenstep submit job.yaml --set costs=small-profile.yaml

A profile is valid for its model, device, software and precision. A job with
other ones refuses it; the message shows both.)";

inline constexpr char kDataExamples[] = R"(Examples:
  evenstep data inspect text:/usr/include --max-length 4096
  evenstep data inspect job.yaml -o json       with the job's own rules
  evenstep data tokenize text:notes --tokenizer m.model --out notes
  evenstep data inspect megatron:notes
  evenstep data make-latents /tmp/clips        then --data latents:/tmp/clips)";

inline constexpr char kGenerateExamples[] = R"(Examples:
  evenstep generate out --prompt '#ifndef _' --temperature 0.7
  echo 'How are you?' | evenstep generate out --chat -o json
  evenstep generate out --prompt 'a' --trainer my-trainer  with your own model
  evenstep generate out --out after.gif                of a video model
  evenstep generate out --untrained --out before.gif

The prompt itself is not printed.)";

inline constexpr char kWaitExamples[] = R"(Examples:
  evenstep wait JOB
  evenstep wait JOB --timeout 30m      exit code 124 when it takes longer)";

inline constexpr char kLogsExamples[] = R"(Examples:
  evenstep logs JOB
  evenstep logs -f JOB                 prints new lines until the job ends
  evenstep logs JOB --rank 0 -o json)";

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_EXAMPLES_H_
