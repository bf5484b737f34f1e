#include "engine/policies/eviction_choice.hpp"
#include "engine/trace/trace_generator.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/trace.hpp"
#include "tools/kvpage/typed_options.hpp"
#include "tools/kvpage/verb.hpp"

#include <kvpage/base/checked.hpp>

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

constexpr std::int64_t kMostSeeds = 1'000'000'000;

/// Errors: Failure when the seeds would go on behind the largest one.
void require_seeds(const TraceSimulateOptions& o) {
  const std::uint64_t further = static_cast<std::uint64_t>(o.count) - 1;
  if (checked_add(o.seed, further)) return;
  throw Failure(kExitUsage, "--count " + std::to_string(o.count) + " from --seed " + std::to_string(o.seed) +
                                " on goes beyond the largest seed, 18446744073709551615");
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
  add_integers(*app, "--pool-blocks", o->pool_blocks, {1, engine::kMaxTraceBlocks},
               "pool sizes; without it the recorded one, else multiples of the largest request");
  add_integer(*app, "--block-size", o->block_size, {.least = 1, .most = 1024, .power_of_two = true},
              "tokens per block; without it as recorded, else 16")
      ->default_str("");
  add_choices(*app, "--policies", o->policies, strings(engine::EvictionChoice::kNames), "policies to compare; without it all");
  add_switch(*app, "--partial-hits", o->partial_hits, "also count a common start of a block, as the engine does");
  add_switch(*app, "--json", o->json, "one JSON object instead of text");
  app->footer("Example:\n  kvpage trace replay chat.jsonl --pool-blocks 256,1024 --policies lru,arc");
  return {app, [o] { return within_memory("a smaller --pool-blocks, or a trace of fewer requests", [&] { return trace_replay(*o); }); }};
}

Verb add_generate(CLI::App& trace) {
  auto o = std::make_shared<TraceGenerateOptions>();
  auto* app = trace.add_subcommand("generate", "Write a trace of made-up requests of a known shape");
  add_choice(*app, "KIND", o->kind, strings(engine::kTraceKinds),
             "chat turns, shared system prompts, scans between hot prefixes, or a mix of all")
      ->required();
  add_seed(*app, "--seed", o->seed, "equal seeds give equal traces");
  add_integer(*app, "--requests", o->num_requests, {1, 10'000'000}, "number of requests");
  app->add_option("-o,--output", o->output, "file; without it standard output");
  app->footer("Example:\n  kvpage trace generate scan --seed 7 -o scan.jsonl");
  return {app, [o] { return trace_generate(*o); }};
}

Verb add_page(CLI::App& trace) {
  auto o = std::make_shared<TracePageOptions>();
  auto* app = trace.add_subcommand("page", "Draw requests and blocks of a recorded run as one HTML page, step by step");
  app->add_option("FILE", o->file, "trace with cache events")->required();
  app->add_option("-o,--output", o->output, "HTML file")->required();
  add_integer(*app, "--every", o->steps_per_frame, {1, 1'000'000}, "steps per position of the slider; more make the page smaller");
  app->footer("Example:\n  kvpage trace page run.jsonl -o run.html");
  return {app, [o] { return within_memory("a trace of a smaller pool, or a larger --every", [&] { return trace_page(*o); }); }};
}

Verb add_export(CLI::App& trace) {
  auto o = std::make_shared<TraceExportOptions>();
  auto* app = trace.add_subcommand("export", "Write a recorded run for the trace viewer of Perfetto or Chrome");
  app->add_option("FILE", o->file, "trace of a run")->required();
  app->add_option("--perfetto", o->perfetto, "JSON file of trace events, for ui.perfetto.dev or chrome://tracing")->required();
  app->footer("Example:\n  kvpage trace export run.jsonl --perfetto run.json");
  return {app, [o] { return within_memory("a shorter trace", [&] { return trace_export(*o); }); }};
}

Verb add_simulate(CLI::App& trace) {
  auto o = std::make_shared<TraceSimulateOptions>();
  auto* app = trace.add_subcommand("simulate", "Run the scheduler in simulated worlds with faults, and judge every step");
  auto* seed = add_seed(*app, "--seed", o->seed, "the world, its requests and its faults; equal seeds give equal runs");
  auto* count = add_integer(*app, "--count", o->count, {1, kMostSeeds}, "number of seeds, from --seed on, up to 2^64 - 1");
  app->add_option("--from", o->from, "a run that was kept with --out: replayed, and its digest compared")->excludes(seed)->excludes(count);
  app->add_option("-o,--out", o->output, "keep the actions of the first run that fails, or of the first one");
  app->footer("Exit code 1: a rule is broken, or a kept run went differently.\n"
              "Example:\n  kvpage trace simulate --seed 1 --count 500 --out run.sim\n  kvpage trace simulate --from run.sim");
  return {app, [o] {
            require_seeds(*o);
            return trace_simulate(*o);
          }};
}

Verb add_shrink(CLI::App& trace) {
  auto o = std::make_shared<TraceShrinkOptions>();
  auto* app = trace.add_subcommand("shrink", "Shorten a kept simulation that fails to the actions that matter");
  app->add_option("FILE", o->file, "a run that was kept with kvpage trace simulate --out")->required();
  app->add_option("-o,--out", o->output, "keep the short run");
  app->footer("Exit code 1: the run breaks no rule.\nExample:\n  kvpage trace shrink run.sim --out short.sim");
  return {app, [o] { return trace_shrink(*o); }};
}

}  // namespace

Verb add_trace(CLI::App& root) {
  auto* app = root.add_subcommand("trace", "Draw, export and replay recorded runs; simulate the scheduler");
  app->require_subcommand(1);
  app->footer("Example:\n  kvpage trace generate scan -o scan.jsonl && kvpage trace replay scan.jsonl\n"
              "Each verb has examples of its own: kvpage trace page --help");
  const std::vector<Verb> verbs{add_page(*app),     add_export(*app),   add_replay(*app),
                                add_generate(*app), add_simulate(*app), add_shrink(*app)};
  return {app, [verbs] {
            for (const Verb& verb : verbs) {
              if (verb.app->parsed()) return verb.action();
            }
            return static_cast<int>(kExitUsage);
          }};
}

}  // namespace kvpage::cli
