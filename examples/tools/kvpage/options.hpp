/// \file What each verb of the command line was asked to do: plain values, filled by cli.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  bool strict_kernels = false;              ///< refuse a model that a slow kernel would serve
  int threads = 0;                          ///< 0 = CPUs that affinity and cgroup quota allow
  std::string progress = "auto";            ///< auto, none or json
};

struct RunOptions {
  ModelOptions model;
  std::optional<std::string> prompt;        ///< absent = interactive chat
  std::optional<std::string> system;        ///< system message of the chat
  bool raw = false;                         ///< no chat template; special tokens in the text count
  std::int64_t max_tokens = 256;
  float temperature = 0.0f;
  std::int64_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  std::optional<std::uint64_t> seed;        ///< absent = drawn and printed
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

struct BenchOptions {
  ModelOptions model;
  std::int64_t prompt_tokens = 512;
  std::int64_t generate_tokens = 128;
  std::int64_t depth_tokens = 0;            ///< positions filled before the timed prompt
  std::uint64_t seed = 1;
  std::optional<std::string> requests;      ///< JSON lines; "-" = standard input; absent = one case of random tokens
  std::string evict = "lru";                ///< name of an eviction policy
  std::optional<std::string> trace;         ///< file for the trace of a run of requests
  bool profile = false;                     ///< what each operation of a step takes
  bool json = false;
};

struct PlanOptions {
  ModelOptions model;
  std::int64_t num_seqs = 1;
  std::optional<std::uint64_t> memory_bytes;  ///< absent = only the plan
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
int bench_requests(const BenchOptions& options);
int plan(const PlanOptions& options);
int inspect(const InspectOptions& options);
int render_template(const TemplateOptions& options);

}  // namespace kvpage::cli
