/// \file Command line of kvpage: one subcommand per verb, parsed here and run elsewhere.
#include "tools/kvpage/options.hpp"

#include "engine/loader/mapped_file.hpp"
#include "engine/memory_plan.hpp"
#include "engine/model/language_model.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/model_options.hpp"
#include "tools/kvpage/verb.hpp"

#include <kvpage/base/error.hpp>
#include <kvpage/base/version.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvpage::cli {
namespace {

Verb add_tokenize(CLI::App& root) {
  auto o = std::make_shared<TokenizeOptions>();
  auto* app = root.add_subcommand("tokenize", "Print the token ids of a text as a JSON array; never adds BOS");
  app->add_option("-m,--model", o->model, "GGUF file")->required();
  app->add_option("--file", o->file, "text; without it standard input");
  add_switch(*app, "--parse-special", o->parse_special, "special tokens written in the text become their ids");
  app->footer("Example:\n  printf 'Hello' | kvpage tokenize --model m.gguf");
  return {app, [o] { return tokenize(*o); }};
}

Verb add_detokenize(CLI::App& root) {
  auto o = std::make_shared<TokenizeOptions>();
  auto* app = root.add_subcommand("detokenize", "Print the text of a JSON array of token ids");
  app->add_option("-m,--model", o->model, "GGUF file")->required();
  app->add_option("--file", o->file, "JSON array; without it standard input");
  app->footer("Example:\n  echo '[9690, 198]' | kvpage detokenize --model m.gguf");
  return {app, [o] { return detokenize(*o); }};
}

Verb add_score(CLI::App& root) {
  auto o = std::make_shared<ScoreOptions>();
  auto* app = root.add_subcommand("score", "Log-probabilities of given continuations, one JSON line per input line");
  add_model_options(*app, o->model);
  add_context(*app, o->model);
  add_prefix_cache(*app, o->model);
  app->get_option("--no-prefix-cache")->description("compute every prompt from its start; matters only with --continuation-only");
  app->add_option("--input", o->input, "lines {\"prompt_ids\": [..], \"continuation_ids\": [..]}; - = standard input")->required();
  add_integer(*app, "--chunk", o->chunk_tokens, {1, engine::kMaxStepTokens}, "prompt tokens computed per step");
  add_switch(*app, "--continuation-only", o->continuation_only,
             "leave out prompt_nll: a prompt that begins like an earlier one is then not computed again");
  app->footer("Example:\n  echo '{\"prompt_ids\":[1,9690],\"continuation_ids\":[198]}' | kvpage score --model m.gguf --input -");
  return {app, [o] { return score(*o); }};
}

Verb add_perplexity(CLI::App& root) {
  auto o = std::make_shared<PerplexityOptions>();
  auto* app = root.add_subcommand("perplexity", "Perplexity of a text: the second half of each window is scored");
  add_model_options(*app, o->model);
  app->add_option("--file", o->file, "text")->required();
  add_integer(*app, "--ctx", o->window_tokens, {4, kMostTokens}, "tokens per window");
  app->footer("Example:\n  kvpage perplexity --model m.gguf --file wiki.txt --ctx 512");
  return {app, [o] { return perplexity(*o); }};
}

Verb add_plan(CLI::App& root) {
  auto o = std::make_shared<PlanOptions>();
  auto* app = root.add_subcommand("plan", "Say how much memory a model takes, and what fits, without loading it");
  app->add_option("FILE", o->model.model, "GGUF file (any part of a split model)")->required();
  add_kernel_options(*app, o->model);
  add_context(*app, o->model);
  add_integer(*app, "--seqs", o->num_seqs, {1, engine::kMaxPlannedSeqs}, "sequences of that context in the KV pool at one time");
  add_bytes(*app, "--memory", o->memory_bytes, 1,
            "bytes that there are, such as 512M or 4G (1K = 1024); exit code 4 when the plan is larger");
  add_switch(*app, "--json", o->json, "one JSON object instead of text");
  app->footer("Example:\n  kvpage plan m.gguf --ctx 4096 --seqs 8 --memory 4G");
  return {app, [o] { return plan(*o); }};
}

Verb add_inspect(CLI::App& root) {
  auto o = std::make_shared<InspectOptions>();
  auto* app = root.add_subcommand("inspect", "Show what a model file holds");
  app->add_option("FILE", o->file, "GGUF file")->required();
  add_switch(*app, "--kernels", o->kernels, "per tensor: the kernel that runs and its bytes");
  add_choice(*app, "--backend", o->backend, engine::backend_names(), "implementation that --kernels describes");
  add_choice(*app, "--isa", o->isa, engine::isa_names(), "instruction set that --kernels describes; without it the widest here");
  for (const char* name : {"--backend", "--isa"}) app->get_option(name)->needs("--kernels");
  app->footer("Example:\n  kvpage inspect --kernels m.gguf");
  return {app, [o] { return inspect(*o); }};
}

Verb add_template(CLI::App& root) {
  auto o = std::make_shared<TemplateOptions>();
  auto* app = root.add_subcommand("template", "Render a chat template; prints the bytes and nothing else");
  auto* source = app->add_option_group("source", "where the template comes from");
  source->add_option("-m,--model", o->model, "GGUF file with a template");
  source->add_option("--template", o->template_file, "file with a template");
  source->require_option(1);
  app->add_option("--messages", o->messages, "JSON array of messages")->required();
  app->add_option("--tools", o->tools, "JSON array of tools");
  add_switch(*app, "!--no-generation-prompt", o->generation_prompt, "leave out the start of the answer");
  app->footer("Example:\n  kvpage template --model m.gguf --messages chat.json");
  return {app, [o] { return render_template(*o); }};
}

std::string version_text() {
  return "kvpage " + std::to_string(KVPAGE_VERSION_MAJOR) + "." + std::to_string(KVPAGE_VERSION_MINOR) + "." +
         std::to_string(KVPAGE_VERSION_PATCH) + " (compiler " __VERSION__ ")";
}

/// The flag that was given a value, which CLI11 calls a "disallowed flag override" of its bare name.
std::optional<std::string> flag_with_value(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::size_t end = text.find(" was given a disallowed flag override");
  return end == std::string::npos ? std::nullopt : std::optional(text.substr(0, end));
}

int dispatch(int argc, char** argv) {
  CLI::App app{"kvpage: run, score, measure and inspect language models"};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(0, 1);  // with at least 1, the message about a wrong word would not name it
  app.footer("Exit codes: 0 ok, 1 run failed, 2 usage, 3 file cannot be loaded, 4 does not fit.\n"
             "Try: kvpage run --help");
  const std::vector<Verb> verbs = {add_run(app),   add_tokenize(app), add_detokenize(app), add_score(app), add_perplexity(app),
                                   add_bench(app), add_plan(app),     add_inspect(app),  add_template(app),   add_trace(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const auto flag = flag_with_value(error)) {
      std::fprintf(stderr, "--%s takes no value\nRun with --help for more information.\n", flag->c_str());
      return kExitUsage;
    }
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  for (const Verb& verb : verbs) {
    if (verb.app->parsed()) return verb.action();
  }
  std::fprintf(stderr, "kvpage: a verb is wanted; kvpage --help lists them\n");
  return kExitUsage;
}

}  // namespace
}  // namespace kvpage::cli

int main(int argc, char** argv) {
  using namespace kvpage;
  try {
    const engine::TruncationGuard guard;
    const int exit_code = cli::dispatch(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
    std::fprintf(stderr, "kvpage: standard output cannot be written; is the disk full, or the reader gone?\n");
    return exit_code != cli::kExitOk ? exit_code : cli::kExitRun;
  } catch (const cli::Failure& failure) {
    std::fprintf(stderr, "kvpage: %s\n", failure.what());
    return failure.exit_code();
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "kvpage: %s (value %lld, limit %lld %s)\n", error.what(), static_cast<long long>(error.value()),
                 static_cast<long long>(error.limit()), error.unit());
    return cli::kExitUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "kvpage: out of memory; try a smaller --ctx\n");
    return cli::kExitDoesNotFit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvpage: %s\n", error.what());
    return cli::kExitRun;
  }
}
