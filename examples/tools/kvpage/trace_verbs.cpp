#include "engine/eviction_choice.hpp"
#include "engine/trace/trace_generator.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"
#include "tools/kvpage/verb.hpp"

#include <memory>
#include <new>
#include <string>
#include <utility>

namespace kvpage::cli {
namespace {

template <std::size_t kCount>
std::vector<std::string> strings(const std::array<std::string_view, kCount>& names) {
  return {names.begin(), names.end()};
}

/// What `verb` returns. Memory that ran out is a failure with advice that fits the verb.
template <class Run>
int within_memory(const char* advice, Run&& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    throw Failure(kExitDoesNotFit, std::string("out of memory; try ") + advice);
  }
}

Verb add_replay(CLI::App& trace) {
  auto o = std::make_shared<TraceReplayOptions>();
  auto* app = trace.add_subcommand("replay", "Hit rates of the eviction policies for the requests of a trace");
  app->add_option("FILE", o->file, "trace")->required();
  app->add_option("--pool-blocks", o->pool_blocks, "pool sizes N[,N..]; without it the recorded one, else multiples of the largest request")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, engine::kMaxTraceBlocks));
  app->add_option("--block-size", o->block_size, "tokens per block; without it as recorded, else 16")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}));
  app->add_option("--policies", o->policies, "policies P[,P..]; without it all")
      ->delimiter(',')
      ->check(CLI::IsMember(strings(engine::EvictionChoice::kNames)));
  app->add_flag("--partial-hits", o->partial_hits, "also count a common start of a block, as the engine does");
  app->add_flag("--json", o->json, "one JSON object instead of text");
  app->footer("Example:\n  kvpage trace replay chat.jsonl --pool-blocks 256,1024 --policies lru,arc");
  return {app, [o] { return within_memory("a smaller --pool-blocks, or a trace of fewer requests", [&] { return trace_replay(*o); }); }};
}

Verb add_generate(CLI::App& trace) {
  auto o = std::make_shared<TraceGenerateOptions>();
  auto* app = trace.add_subcommand("generate", "Write a trace of made-up requests of a known shape");
  app->add_option("KIND", o->kind, "chat turns, shared system prompts, scans between hot prefixes, or a mix of all")
      ->required()
      ->check(CLI::IsMember(strings(engine::kTraceKinds)));
  app->add_option("--seed", o->seed, "equal seeds give equal traces")->capture_default_str();
  app->add_option("--requests", o->num_requests, "number of requests")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000'000}))
      ->capture_default_str();
  app->add_option("-o,--output", o->output, "file; without it standard output");
  app->footer("Example:\n  kvpage trace generate scan --seed 7 -o scan.jsonl");
  return {app, [o] { return trace_generate(*o); }};
}

Verb add_page(CLI::App& trace) {
  auto o = std::make_shared<TracePageOptions>();
  auto* app = trace.add_subcommand("page", "Draw the block map of a recorded run as one HTML page, step by step");
  app->add_option("FILE", o->file, "trace with cache events")->required();
  app->add_option("-o,--output", o->output, "HTML file")->required();
  app->add_option("--every", o->steps_per_frame, "steps per position of the slider; more make the page smaller")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  app->footer("Example:\n  kvpage trace page run.jsonl -o blocks.html");
  return {app, [o] { return within_memory("a trace of a smaller pool, or a larger --every", [&] { return trace_page(*o); }); }};
}

}  // namespace

Verb add_trace(CLI::App& root) {
  auto* app = root.add_subcommand("trace", "Replay, draw and make traces of the KV cache");
  app->require_subcommand(1);
  app->footer("Example:\n  kvpage trace generate scan -o scan.jsonl && kvpage trace replay scan.jsonl\n"
              "See kvpage trace replay --help, kvpage trace generate --help, kvpage trace page --help");
  const std::vector<Verb> verbs{add_replay(*app), add_generate(*app), add_page(*app)};
  return {app, [verbs] {
            for (const Verb& verb : verbs) {
              if (verb.app->parsed()) return verb.action();
            }
            return static_cast<int>(kExitUsage);
          }};
}

}  // namespace kvpage::cli
