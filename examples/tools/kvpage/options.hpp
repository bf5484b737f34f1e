/// \file What each verb of the command line was asked to do: plain values, filled where the options of the verb stand.
#pragma once

#include <kvpage/kernels/sample/args.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvpage::cli {

/// Exit codes of the program; scripts depend on them.
enum ExitCode : int {
  kExitOk = 0,
  kExitRun = 1,         ///< the work itself failed
  kExitUsage = 2,       ///< wrong arguments, or arguments that the model cannot honour
  kExitLoad = 3,        ///< a file that cannot be loaded
  kExitDoesNotFit = 4,  ///< more memory, context or strictness asked for than there is
};

/// Options of every verb that computes with a model.
struct ModelOptions {
  std::string model;                        ///< path of the (first) GGUF file
  std::string kernels = "cpu";              ///< name of a backend, see `backend_names()`
  std::string kv_type;                      ///< name of a KV format; empty = the backend's default
  std::int64_t context_tokens = 0;          ///< 0 = min(the model's limit, kDefaultContextTokens)
  std::int64_t pool_blocks = 0;             ///< pages of the KV pool; 0 = what one sequence of the context needs
  std::int64_t host_tier_bytes = 0;         ///< memory for evicted pages; 0 = none
  bool prefix_cache = true;                 ///< what an earlier text left in the cache is not computed again
  std::string isa;                          ///< one of `isa_names()`; empty = the widest that this processor runs
  std::string packed_cache;                 ///< folder for files of packed weights; empty = none
  bool strict_kernels = false;              ///< refuse a model that a slow kernel would serve
  int threads = 0;                          ///< 0 = CPUs that affinity and cgroup quota allow
  std::string progress = "auto";            ///< auto, none or json
};

/// How the tokens of `run` are chosen.
struct SamplingOptions {
  float temperature = 0.0f;
  std::int64_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<LogitBias> logit_bias;
  std::optional<std::uint64_t> seed;        ///< absent = drawn and printed
};

struct RunOptions {
  ModelOptions model;
  std::optional<std::string> prompt;        ///< absent = interactive chat
  std::optional<std::string> system;        ///< system message of the chat
  bool raw = false;                         ///< no chat template; special tokens in the text count
  std::int64_t max_tokens = 256;
  std::int64_t min_tokens = 0;
  std::int64_t num_answers = 1;
  std::int64_t beam_width = 0;              ///< 0 = sampling
  std::vector<std::string> stop;
  std::int64_t num_logprobs = -1;           ///< -1 = none
  SamplingOptions sampling;
};

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> file;          ///< absent = standard input
  bool parse_special = false;
};

struct ScoreOptions {
  ModelOptions model;
  std::string input;                        ///< JSON lines; "-" = standard input
  std::int64_t chunk_tokens = 512;
  bool continuation_only = false;           ///< no prompt_nll: only then prompts can share prefixes
};

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  std::int64_t window_tokens = 512;
};

/// What the engine of a run of requests is allowed, and who decides in it.
struct EngineOptions {
  std::int64_t max_seqs = 32;
  std::int64_t budget_tokens = 512;         ///< rows of one step
  std::int64_t chunk_tokens = 0;            ///< rows of one sequence in one step; 0 = the budget
  std::int64_t max_waiting = 0;             ///< requests in the queue; 0 = all of the run
  std::string order = "fcfs";
  std::string admission = "learned-growth";
  std::string preemption = "cost";
  std::string evict = "lru";
  std::string batching = "continuous";      ///< or static, static-padded
};

/// Generated requests instead of a file.
struct MixOptions {
  std::string kind;                         ///< one of kMixKinds
  std::int64_t count = 64;
  double rate_per_s = 0;                    ///< mean of Poisson arrivals; 0 = all at the start
  std::uint64_t seed = 1;
};

struct BenchOptions {
  ModelOptions model;
  std::int64_t prompt_tokens = 512;
  std::int64_t generate_tokens = 128;
  std::int64_t depth_tokens = 0;            ///< positions filled before the timed prompt
  std::uint64_t seed = 1;
  std::int64_t batch = 0;                   ///< prompts at once; 0 = one prompt
  std::optional<std::string> requests;      ///< JSON lines; "-" = standard input
  std::optional<MixOptions> mix;            ///< without both: one case of random tokens
  EngineOptions engine;
  double slo_ttft_ms = 0;                   ///< goals that goodput counts; 0 = none
  double slo_tpot_ms = 0;
  std::optional<std::string> trace;         ///< file for the trace of a run of requests
  bool profile = false;                     ///< what each operation of a step takes
  bool steps = false;                       ///< report each step
  bool json = false;
};

struct PlanOptions {
  ModelOptions model;
  std::int64_t num_seqs = 1;
  std::optional<std::int64_t> memory_bytes;  ///< absent = only the plan
  bool json = false;
};

struct InspectOptions {
  std::string file;
  bool kernels = false;
  std::string backend = "cpu";
  std::string isa;                          ///< describe the kernels of this instruction set; empty = of the widest here
};

struct TemplateOptions {
  std::optional<std::string> model;
  std::optional<std::string> template_file;
  std::string messages;                     ///< path of a JSON array of messages
  std::optional<std::string> tools;         ///< path of a JSON array of tools
  bool generation_prompt = true;
};

int run(const RunOptions& options);
int tokenize(const TokenizeOptions& options);
int detokenize(const TokenizeOptions& options);
int score(const ScoreOptions& options);
int perplexity(const PerplexityOptions& options);
int bench(const BenchOptions& options);
int bench_batch(const BenchOptions& options);
int bench_requests(const BenchOptions& options);
int plan(const PlanOptions& options);
int inspect(const InspectOptions& options);
int render_template(const TemplateOptions& options);

}  // namespace kvpage::cli
