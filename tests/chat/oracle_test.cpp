#include "chat/chats.hpp"
#include "chat/jinja_oracle.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

using namespace kvpage_test;

namespace {

constexpr std::uint64_t kSeed = 20240706;
constexpr int kChatsPerTemplate = 60;

std::vector<TemplateCase> generated_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data_dir() / "templates")) {
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<TemplateCase> cases;
  ChatGenerator chats{kSeed};
  for (const auto& file : files) {
    const std::string source = read_text(file);
    for (int i = 0; i < kChatsPerTemplate; ++i) cases.push_back({file.stem().string(), source, chats.next()});
  }
  return cases;
}

std::vector<TemplateCase> snippet_cases() {
  Json inputs = Json::parse(read_text(data_dir() / "templates" / "snippet_inputs.json"));
  inputs["tools"] = nullptr, inputs["documents"] = nullptr, inputs["add_generation_prompt"] = true;
  inputs["bos_token"] = "<s>", inputs["eos_token"] = "</s>";
  std::vector<TemplateCase> cases;
  std::ifstream file(data_dir() / "templates" / "snippets.jsonl", std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const std::string source = Json::parse(line).get<std::string>();
    cases.push_back({source, source, inputs});
  }
  return cases;
}

}  // namespace

TEST_CASE("chat.oracle.every_template_shape_renders_the_bytes_of_jinja2", "[chat]") {
  const auto cases = generated_cases();
  const auto answers = jinja_answers(cases);
  std::map<std::string, int> rendered;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Rendering ours = render(cases[i].source, cases[i].inputs);
    INFO("template " << cases[i].name << ", case " << i << ", seed " << kSeed << ", inputs " << cases[i].inputs.dump());
    INFO("ours   " << Json(ours.text).dump());
    INFO("jinja2 " << answers[i].dump());
    REQUIRE(agrees(ours, answers[i]));
    rendered[cases[i].name] += ours.ok ? 1 : 0;
  }
  REQUIRE(rendered.size() >= 12);
  for (const auto& [name, count] : rendered) {
    std::printf("%s: %d of %d chats rendered, the others refused by both\n", name.c_str(), count, kChatsPerTemplate);
    CHECK(count >= kChatsPerTemplate / 4);
  }
}

TEST_CASE("chat.oracle.every_snippet_renders_the_bytes_of_jinja2", "[chat]") {
  const auto cases = snippet_cases();
  const auto answers = jinja_answers(cases);
  REQUIRE(cases.size() >= 100);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Rendering ours = render(cases[i].source, cases[i].inputs);
    INFO("snippet " << cases[i].source);
    INFO("ours   " << Json(ours.text).dump());
    INFO("jinja2 " << answers[i].dump());
    CHECK(agrees(ours, answers[i]));
  }
}

TEST_CASE("chat.oracle.the_comparator_rejects_a_changed_byte_and_a_wrong_verdict", "[chat]") {
  const Json inputs{{"messages", Json::array({{{"role", "user"}, {"content", "hi"}}})}};
  const auto answers = jinja_answers({{"ok", "{{ messages[0].content }}", inputs}, {"bad", "{{ 1 / 0 }}", inputs}});
  CHECK(agrees({true, "hi"}, answers[0]));
  CHECK_FALSE(agrees({true, "hI"}, answers[0]));
  CHECK_FALSE(agrees({true, "hi "}, answers[0]));
  CHECK_FALSE(agrees({false, "refused"}, answers[0]));
  CHECK(agrees({false, "division by zero"}, answers[1]));
  CHECK_FALSE(agrees({true, ""}, answers[1]));
}
