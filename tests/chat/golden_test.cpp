#include "chat/chats.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/tokenizer_from_gguf.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <cstdio>
#include <map>

using namespace kvpage_test;

namespace {

/// The template inside the model file that a golden row names.
std::string model_template(const std::string& model) {
  const auto path = model_path(model == "smollm2" ? "smollm2" : "qwen0.5b");
  const auto file = kvpage::engine::Gguf::open(path);
  if (!file) throw std::runtime_error("cannot open " + path.string() + "; run tools/fetch_model.sh");
  const auto source = kvpage::engine::read_chat_template(*file);
  if (!source || !*source) throw std::runtime_error(path.string() + " has no chat template");
  return **source;
}

std::vector<Json> golden_rows() {
  std::vector<Json> rows;
  std::ifstream file(data_dir() / "golden" / "chat_templates.jsonl", std::ios::binary);
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  return rows;
}

bool matches(const std::string& source, const Json& row) {
  Json inputs{{"messages", row["messages"]}, {"tools", row["tools"]}, {"add_generation_prompt", row["add_generation_prompt"]}};
  const Rendering ours = render(source, inputs);
  return ours.ok && ours.text == row["rendered"].get<std::string>();
}

}  // namespace

TEST_CASE("chat.golden.every_row_renders_as_the_reference_does", "[chat]") {
  const auto rows = golden_rows();
  REQUIRE(!rows.empty());
  std::map<std::string, std::string> sources;
  std::size_t checked = 0;
  for (const Json& row : rows) {
    const auto model = row["model"].get<std::string>();
    if (!sources.contains(model)) sources[model] = model_template(model);
    INFO("model " << model << ", case " << row["case"].get<std::string>());
    CHECK(matches(sources[model], row));
    ++checked;
  }
  std::printf("chat_templates.jsonl: %zu rows checked / %zu rows in the file\n", checked, rows.size());
  CHECK(checked == rows.size());
  CHECK(sources.size() == 2);
}

TEST_CASE("chat.golden.the_comparator_rejects_one_altered_byte", "[chat]") {
  Json row = golden_rows().front();
  const std::string source = model_template(row["model"].get<std::string>());
  REQUIRE(matches(source, row));
  std::string altered = row["rendered"].get<std::string>();
  altered[altered.size() / 2] = static_cast<char>(altered[altered.size() / 2] ^ 1);
  row["rendered"] = altered;
  CHECK_FALSE(matches(source, row));
}
