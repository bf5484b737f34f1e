/// \file The verbs tokenize, detokenize and template: exactly the bytes, nothing added.
#include "cli/program.hpp"
#include "engine/tiny_models.hpp"
#include "support/environment.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

namespace kvpage_test {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> golden_chats() {
  std::vector<Json> rows;
  std::ifstream file(data_dir() / "golden" / "chat_templates.jsonl");
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  REQUIRE(!rows.empty());
  return rows;
}

Outcome render(const std::string& model, const Json& row, const TempDir& dir) {
  write_text(dir / "messages.json", row["messages"].dump());
  std::vector<std::string> arguments{"template", "--model", model, "--messages", dir / "messages.json"};
  if (!row["tools"].is_null()) {
    write_text(dir / "tools.json", row["tools"].dump());
    arguments.insert(arguments.end(), {"--tools", dir / "tools.json"});
  }
  if (!row["add_generation_prompt"].get<bool>()) arguments.push_back("--no-generation-prompt");
  return run_kvpage(arguments);
}

}  // namespace

TEST_CASE("cli.tokenize.ids_come_back_as_the_same_bytes", "[cli]") {
  const std::string valid = "Hello, w\xc3\xb6rld!\n\n  two  spaces\t12345 <|im_end|> <s> \xf0\x9f\x98\x80";
  for (const std::string model : {"smollm2", "gemma3", "qwen0.5b"}) {
    const std::string text = model == "smollm2" ? valid : valid + "\xff\xfe\xc3 ";  // which that vocabulary has no tokens for
    for (const bool parse_special : {false, true}) {
      std::vector<std::string> arguments{"tokenize", "--model", model_path(model)};
      if (parse_special) arguments.push_back("--parse-special");
      const Outcome ids = run_kvpage(arguments, text);
      INFO(model << ids.err);
      REQUIRE(ids.exit_code == 0);
      CHECK(ids.out.ends_with("]\n"));
      const auto array = Json::parse(ids.out);
      CHECK(array.size() > 10);
      if (model == "gemma3") CHECK(array.front() != 2);  // never BOS
      const Outcome back = run_kvpage({"detokenize", "--model", model_path(model)}, ids.out);
      CHECK(back.exit_code == 0);
      CHECK(back.out == text);
    }
  }
}

TEST_CASE("cli.tokenize.a_file_is_the_same_as_standard_input", "[cli]") {
  const TinyFile tiny{TinyModel{}};
  const TempDir dir;
  write_text(dir / "text", "then\n");
  const Outcome from_file = run_kvpage({"tokenize", "--model", tiny.path(), "--file", dir / "text"});
  CHECK(from_file.out == run_kvpage({"tokenize", "--model", tiny.path()}, "then\n").out);
  CHECK(Json::parse(from_file.out) == Json::parse("[116, 257, 110, 10]"));
  CHECK(run_kvpage({"tokenize", "--model", tiny.path()}, "").out == "[]\n");
  CHECK(run_kvpage({"tokenize", "--model", tiny.path()}, "<|im_end|>").out.size() > 20);
  CHECK(run_kvpage({"tokenize", "--model", tiny.path(), "--parse-special"}, "<|im_end|>").out == "[267]\n");
  for (const char* bad : {"[272]", "[-1]", "[1.5]", "{}", "[1", "[\"a\"]"}) {
    INFO(bad);
    CHECK(run_kvpage({"detokenize", "--model", tiny.path()}, bad).exit_code == 2);
  }
}

TEST_CASE("cli.template.renders_the_golden_bytes", "[cli]") {
  const TempDir dir;
  const std::map<std::string, std::string> files{{"smollm2", "smollm2"}, {"qwen2.5-coder", "qwen0.5b"}};
  std::map<std::string, int> rendered;
  for (const Json& row : golden_chats()) {
    const auto model = row["model"].get<std::string>();
    const auto name = row["case"].get<std::string>();
    if (name != "capital" && name != "tool_call" && name != "multi_turn") continue;
    const Outcome outcome = render(model_path(files.at(model)), row, dir);
    INFO(model << ", " << name << ": " << outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == row["rendered"].get<std::string>());
    ++rendered[model];
  }
  CHECK(rendered["smollm2"] == 4);
  CHECK(rendered["qwen2.5-coder"] == 12);
}

TEST_CASE("cli.template.a_template_of_ones_own", "[cli]") {
  const TempDir dir;
  write_text(dir / "messages.json", R"([{"role": "user", "content": "hi"}])");
  const auto render_source = [&](std::string_view source) {
    write_text(dir / "own.jinja", source);
    return run_kvpage({"template", "--template", dir / "own.jinja", "--messages", dir / "messages.json"});
  };
  CHECK(render_source("{{ messages[0]['content'] }}").out == "hi");
  const Outcome broken = render_source("a\n{% if %}");
  CHECK(broken.exit_code == 3);
  CHECK(contains(broken.err, "line 2"));
  const Outcome unsupported = render_source("a\n{% include 'x' %}");
  CHECK(unsupported.exit_code == 1);
  CHECK(contains(unsupported.err, "line 2"));
  CHECK(render_source("a{% if false %}{% include 'x' %}{% endif %}").out == "a");
  CHECK(render_source("{{ raise_exception('no such role') }}").exit_code == 1);
}

}  // namespace kvpage_test
