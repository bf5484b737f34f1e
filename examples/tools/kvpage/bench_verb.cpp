/// \file Options of `kvpage bench`.
#include "engine/model/language_model.hpp"
#include "engine/policies/eviction_choice.hpp"
#include "engine/text/number_text.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/model_options.hpp"
#include "tools/kvpage/request_mix.hpp"
#include "tools/kvpage/verb.hpp"

#include <kvpage/sched/any_policies.hpp>

#include <memory>
#include <utility>

namespace kvpage::cli {
namespace {

constexpr std::int64_t kMostWaiting = std::int64_t{1} << 24;   // as SchedulerConfig
constexpr std::int64_t kMostBlocks = kMostTokens - 1;          // as BlockAllocatorConfig
constexpr double kMostMs = 1e9;

const char* const kFooter =
    "One of four: one case of random tokens (the default), --batch, --requests or --mix.\n"
    "Examples:\n  kvpage bench --model m.gguf --threads 2 --prompt-tokens 512 --gen 128 --json\n"
    "  kvpage bench --model m.gguf --batch 16 --prompt-tokens 128 --gen 64 --json\n"
    "  kvpage bench --model m.gguf --requests chat.jsonl --pool-blocks 64 --evict arc --host-tier 64M --json\n"
    "  kvpage bench --model m.gguf --mix random --count 32 --rate 4 --batching static\n"
    "Lines of --requests, greedy unless they say otherwise:\n";

const char* const kReportHelp =
    "Times are seconds: ttft_s from arrival to the first token, end_to_end_s from arrival to the end, time_per_token_s from the first\n"
    "token to the end, per further token that the longest answer drew, an end token included (of best_of and beam: the longest that was\n"
    "kept, though the request ends with the last one that was computed).\n"
    "Percentiles are nearest-rank over the requests that ended by themselves: values that were measured.\n"
    "goodput: with --slo-ttft-ms or --slo-tpot-ms, requests per second that met them; without, output tokens per second of requests that\n"
    "ended by themselves.\n"
    "A request that is refused has an error in its result; the others go on, and the exit code is 0. It is 1 when a request failed in the\n"
    "model, or the run was interrupted (Ctrl-C: what runs is cancelled and reported).";

/// Adds options and remembers them, to say what they go with.
class OptionGroup {
 public:
  explicit OptionGroup(CLI::App& app) : app_(app) {}

  /// Remembers an option that was added.
  void take(CLI::Option* option) { options_.push_back(option); }
  void take(const char* name) { take(app_.get_option(name)); }
  void count(const std::string& name, std::int64_t& value, std::int64_t least, std::int64_t most, const std::string& help) {
    take(add_integer(app_, name, value, {least, most}, help));
  }
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& names, const std::string& help) {
    take(add_choice(app_, name, value, names, help));
  }

  /// Errors: Failure when one of them was given.
  void refuse(const std::string& why) const {
    for (const CLI::Option* option : options_) {
      if (option->count() > 0) throw Failure(kExitUsage, option->get_name() + " " + why);
    }
  }

 private:
  CLI::App& app_;
  std::vector<CLI::Option*> options_;
};

/// What was given, beside the values.
struct BenchVerb {
  explicit BenchVerb(CLI::App& app) : one_case(app), random_case(app), engine(app), mix(app) {}

  BenchOptions options;
  MixOptions mix_options;
  OptionGroup one_case;     ///< --depth
  OptionGroup random_case;  ///< of random tokens: one case or --batch; --profile
  OptionGroup engine;       ///< --requests or --mix
  OptionGroup mix;

  /// Errors: Failure when options do not go together.
  void check() {
    const bool whole_run = options.requests || !mix_options.kind.empty();
    if (options.requests && !mix_options.kind.empty()) throw Failure(kExitUsage, "--requests and --mix exclude each other");
    if (whole_run && options.batch > 0) throw Failure(kExitUsage, "--batch goes neither with --requests nor with --mix");
    if (whole_run || options.batch > 0) one_case.refuse("goes with one case only, not with --batch, --requests or --mix");
    if (whole_run) random_case.refuse("goes neither with --requests nor with --mix");
    if (!whole_run) engine.refuse("requires --requests or --mix");
    if (mix_options.kind.empty()) mix.refuse("requires --mix");
    require_sizes();
    mix_options.seed = options.seed;
    if (!mix_options.kind.empty()) options.mix = mix_options;
    if (options.engine.batching == "continuous") return;
    if (options.engine.order != EngineOptions{}.order) {
      throw Failure(kExitUsage, "--batching " + options.engine.batching + " has an order of its own; leave out --order");
    }
    options.engine.order = "static";
  }

 private:
  /// Errors: Failure when sizes do not go together.
  void require_sizes() const {
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    const std::int64_t least_budget = options.engine.max_seqs + 1;
    if (options.engine.budget_tokens < least_budget) {
      throw Failure(kExitUsage, "--budget-tokens " + text(options.engine.budget_tokens) + " is too small for --max-seqs " +
                                    text(options.engine.max_seqs) + ": with a row for each sequence and one of a prompt, at least " +
                                    text(least_budget) + " are wanted");
    }
    constexpr double kLongestRun_s = 1e8;
    const double rate = mix_options.rate_per_s;
    if (rate > 0 && static_cast<double>(mix_options.count) / rate > kLongestRun_s) {
      throw Failure(kExitUsage, "--rate " + engine::real_text(rate) + " is too small for --count " + text(mix_options.count) +
                                    ": the requests would arrive over more than 100000000 seconds");
    }
  }
};

void add_engine_options(CLI::App& app, BenchVerb& verb) {
  BenchOptions& o = verb.options;
  OptionGroup& group = verb.engine;
  group.count("--max-seqs", o.engine.max_seqs, 1, engine::kMaxStepTokens - 1, "sequences of one step");
  group.count("--budget-tokens", o.engine.budget_tokens, 2, engine::kMaxStepTokens, "rows of one step, more than --max-seqs");
  group.count("--chunk", o.engine.chunk_tokens, 0, kMostTokens, "rows of one sequence in one step; 0 = the budget");
  group.count("--max-waiting", o.engine.max_waiting, 0, kMostWaiting, "requests in the queue, others are refused; 0 = all");
  group.choice("--batching", o.engine.batching, {"continuous", "static", "static-padded"},
               "static: a batch ends before the next one starts; static-padded: it also computes what padded rows would cost");
  group.choice("--order", o.engine.order, names_of(named_orders()), "who goes first");
  group.choice("--admission", o.engine.admission, names_of(named_admissions()), "blocks that a request must find free");
  group.choice("--preempt", o.engine.preemption, names_of(named_preemptions()), "who gives way when blocks run out");
  const auto& evictions = engine::EvictionChoice::kNames;
  group.choice("--evict", o.engine.evict, {evictions.begin(), evictions.end()}, "which cached page gives way to new content");
  group.count("--pool-blocks", o.model.pool_blocks, 0, kMostBlocks,
              "pages of the KV pool; 0 = what --max-seqs of the longest request need, at least one context");
  group.take(add_bytes(app, "--host-tier", o.model.host_tier_bytes, 0,
                       "memory that keeps evicted pages, in bytes, such as 64M (1K = 1024); 0 = none"));
  add_context(app, o.model);
  add_prefix_cache(app, o.model);
  for (const char* name : {"--ctx", "--no-prefix-cache"}) group.take(name);
  group.take(add_real(app, "--slo-ttft-ms", o.slo_ttft_ms, 0, kMostMs, "goal for the time to the first token; 0 = none"));
  group.take(add_real(app, "--slo-tpot-ms", o.slo_tpot_ms, 0, kMostMs, "goal for the time per token after it; 0 = none"));
  app.add_option("--trace", o.trace, "write what happens to requests and pages into this file");
  add_switch(app, "--steps", o.steps, "report [rows, sequences, seconds] of each step (JSON)");
  for (const char* name : {"--trace", "--steps"}) group.take(name);
}

void add_mix_options(CLI::App& app, BenchVerb& verb) {
  MixOptions& o = verb.mix_options;
  add_choice(app, "--mix", o.kind, {kMixKinds.begin(), kMixKinds.end()}, "generate the requests");
  verb.mix.count("--count", o.count, 1, 1'000'000, "requests of --mix");
  verb.mix.take(add_real(app, "--rate", o.rate_per_s, 0, 1e6,
                         "mean of their Poisson arrivals, in requests per second; 0 = all at the start"));
}

void add_random_case(CLI::App& app, BenchVerb& verb) {
  BenchOptions& o = verb.options;
  add_integer(app, "--batch", o.batch, {1, 1024}, "this many distinct prompts at once: rates of prefill and decode")->default_str("");
  verb.random_case.count("--prompt-tokens", o.prompt_tokens, 1, kMostTokens, "tokens of the timed prompt");
  verb.random_case.count("--gen", o.generate_tokens, 0, kMostTokens, "tokens to generate");
  verb.one_case.count("--depth", o.depth_tokens, 0, kMostTokens, "positions filled before the timed prompt");
  add_seed(app, "--seed", o.seed, "seed of the prompt ids, or of --mix");
  add_switch(app, "--profile", o.profile, "what each operation of a step takes");
  verb.random_case.take("--profile");
}

}  // namespace

Verb add_bench(CLI::App& root) {
  auto* app = root.add_subcommand("bench", "Time one case of seeded random tokens, a batch of them, or requests through the engine");
  auto verb = std::make_shared<BenchVerb>(*app);
  add_model_options(*app, verb->options.model);
  add_random_case(*app, *verb);
  app->add_option("--requests", verb->options.requests, "run the requests of this file, JSON lines, see below; - = standard input");
  add_mix_options(*app, *verb);
  add_engine_options(*app, *verb);
  add_switch(*app, "--json", verb->options.json, "one JSON object instead of text");
  app->footer(kFooter + request_fields_help() + kReportHelp);
  return {app, [verb] {
            verb->check();
            return bench(verb->options);
          }};
}

}  // namespace kvpage::cli
