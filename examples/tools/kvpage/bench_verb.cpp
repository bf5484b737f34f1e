/// \file Options of `kvpage bench`.
#include "engine/eviction_choice.hpp"
#include "engine/language_model.hpp"
#include "engine/policy_names.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/model_options.hpp"
#include "tools/kvpage/request_mix.hpp"
#include "tools/kvpage/verb.hpp"

#include <memory>
#include <utility>

namespace kvpage::cli {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;

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

  template <class T>
  CLI::Option* add(const std::string& name, T& value, const std::string& help) {
    options_.push_back(app_.add_option(name, value, help)->capture_default_str());
    return options_.back();
  }
  void take(const char* name) { options_.push_back(app_.get_option(name)); }
  CLI::Option* count(const std::string& name, std::int64_t& value, std::int64_t least, const std::string& help) {
    return add(name, value, help)->check(CLI::Range(least, kMost));
  }
  CLI::Option* choice(const std::string& name, std::string& value, const std::vector<std::string>& names, const std::string& help) {
    return add(name, value, help + ": " + join(names))->check(CLI::IsMember(names));
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
    mix_options.seed = options.seed;
    if (!mix_options.kind.empty()) options.mix = mix_options;
    if (options.engine.batching == "continuous") return;
    if (options.engine.order != EngineOptions{}.order) {
      throw Failure(kExitUsage, "--batching " + options.engine.batching + " has an order of its own; leave out --order");
    }
    options.engine.order = "static";
  }
};

void add_engine_options(CLI::App& app, BenchVerb& verb) {
  BenchOptions& o = verb.options;
  OptionGroup& group = verb.engine;
  group.count("--max-seqs", o.engine.max_seqs, 1, "sequences of one step");
  group.count("--budget-tokens", o.engine.budget_tokens, 1, "rows of one step")->check(CLI::Range(std::int64_t{1}, engine::kMaxStepTokens));
  group.count("--chunk", o.engine.chunk_tokens, 0, "rows of one sequence in one step; 0 = the budget");
  group.count("--max-waiting", o.engine.max_waiting, 0, "requests in the queue, others are refused; 0 = all");
  group.choice("--batching", o.engine.batching, {"continuous", "static", "static-padded"},
               "static: a batch ends before the next one starts; static-padded: it also computes what padded rows would cost");
  group.choice("--order", o.engine.order, engine::names_of(engine::named_orders()), "who goes first");
  group.choice("--admission", o.engine.admission, engine::names_of(engine::named_admissions()), "blocks that a request must find free");
  group.choice("--preempt", o.engine.preemption, engine::names_of(engine::named_preemptions()), "who gives way when blocks run out");
  const auto& evictions = engine::EvictionChoice::kNames;
  group.choice("--evict", o.engine.evict, {evictions.begin(), evictions.end()}, "which cached page gives way to new content");
  group.count("--pool-blocks", o.model.pool_blocks, 0,
              "pages of the KV pool; 0 = what --max-seqs of the longest request need, at least one context");
  group.add("--host-tier", o.model.host_tier_bytes, "memory that keeps evicted pages, in bytes, such as 64M (1K = 1024); 0 = none")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 62));
  add_context(app, o.model);
  add_prefix_cache(app, o.model);
  for (const char* name : {"--ctx", "--no-prefix-cache"}) group.take(name);
  group.add("--slo-ttft-ms", o.slo_ttft_ms, "goal for the time to the first token; 0 = none")->check(CLI::NonNegativeNumber);
  group.add("--slo-tpot-ms", o.slo_tpot_ms, "goal for the time per token after it; 0 = none")->check(CLI::NonNegativeNumber);
  app.add_option("--trace", o.trace, "write what happens to requests and pages into this file");
  app.add_flag("--steps", o.steps, "report [rows, sequences, seconds] of each step (JSON)");
  for (const char* name : {"--trace", "--steps"}) group.take(name);
}

void add_mix_options(CLI::App& app, BenchVerb& verb) {
  MixOptions& o = verb.mix_options;
  app.add_option("--mix", o.kind, "generate the requests: " + join({kMixKinds.begin(), kMixKinds.end()}))
      ->check(CLI::IsMember(std::vector<std::string>(kMixKinds.begin(), kMixKinds.end())));
  verb.mix.add("--count", o.count, "requests of --mix")->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  verb.mix.add("--rate", o.rate_per_s, "mean of their Poisson arrivals, in requests per second; 0 = all at the start")
      ->check(CLI::Range(0.0, 1e6));
}

void add_random_case(CLI::App& app, BenchVerb& verb) {
  BenchOptions& o = verb.options;
  app.add_option("--batch", o.batch, "this many distinct prompts at once: rates of prefill and decode")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}));
  verb.random_case.count("--prompt-tokens", o.prompt_tokens, 1, "tokens of the timed prompt");
  verb.random_case.count("--gen", o.generate_tokens, 0, "tokens to generate");
  verb.one_case.count("--depth", o.depth_tokens, 0, "positions filled before the timed prompt");
  app.add_option("--seed", o.seed, "seed of the prompt ids, or of --mix")->capture_default_str();
  app.add_flag("--profile", o.profile, "what each operation of a step takes");
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
  app->add_flag("--json", verb->options.json, "one JSON object instead of text");
  app->footer(kFooter + request_fields_help() + kReportHelp);
  return {app, [verb] {
            verb->check();
            return bench(verb->options);
          }};
}

}  // namespace kvpage::cli
