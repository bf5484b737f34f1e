#include "chat/chats.hpp"
#include "chat/jinja_oracle.hpp"
#include "engine/chat/text.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

using namespace kvpage_test;
using kvpage::engine::TemplateError;
using kvpage::engine::TemplateErrorKind;
using kvpage::engine::chat::Value;

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

constexpr char kMark = '\1';  // in no template and in no literal of Python

/// `value` with the mark around each text. A map has each key with the mark, too: the one without is what a template looks up.
/// Roles stay, since templates refuse those that they do not know.
Value with_marks(const Value& value) {
  if (const auto* text = value.as_text()) return Value::text(kMark + text->bytes() + kMark);
  if (const auto* list = value.as_list()) {
    std::vector<Value> items;
    for (const Value& item : list->items) items.push_back(with_marks(item));
    return Value::list(std::move(items));
  }
  const auto* dict = value.as_dict();
  if (dict == nullptr) return value;
  std::vector<kvpage::engine::chat::Dict::Entry> entries;
  for (const auto& [key, held] : dict->entries()) {
    entries.push_back({key, key.as_text()->bytes() == "role" ? held : with_marks(held)});
    entries.push_back({with_marks(key), with_marks(held)});
  }
  return Value::dict(std::move(entries));
}

/// Renders with marks in all that is not from the template: the first trusted span that holds one, or "".
std::string trusted_mark(const kvpage::engine::ChatTemplate& compiled, const Value& inputs) {
  std::vector<kvpage::engine::chat::Dict::Entry> entries = inputs.as_dict()->entries();
  for (auto& [name, value] : entries) {
    if (!name.as_text()->bytes().ends_with("_token")) value = with_marks(value);
  }
  const auto prompt = compiled.render(chat_inputs(Value::dict(std::move(entries))));
  if (!prompt) return {};
  for (const auto& span : prompt->trusted) {
    const std::string text = prompt->text.substr(span.begin, span.end - span.begin);
    if (text.find(kMark) != std::string::npos) return text;
  }
  return {};
}

/// Counts over cases that a script made.
struct Tally {
  int same = 0, both_refuse = 0, unsupported = 0;

  /// Equal bytes, an error on both sides, or an error of ours that names a limit or what is not supported; anything else fails the test.
  void add(const std::string& line) {
    const Json item = Json::parse(line);
    const auto exact = kvpage::engine::template_value(line).value();  // Json keeps 64 bits of an integer
    const auto source = item["template"].get<std::string>();
    const auto compiled = kvpage::engine::ChatTemplate::compile(source);
    using Prompt = kvpage::Expected<kvpage::engine::RenderedPrompt, TemplateError>;
    const Prompt prompt =
        compiled ? compiled->render(chat_inputs(*exact.as_dict()->find("inputs"))) : Prompt{kvpage::Unexpected{compiled.error()}};
    INFO("template " << item["template"].dump() << (item.contains("name") ? ", " + item["name"].get<std::string>() : ""));
    const std::string stolen = compiled ? trusted_mark(*compiled, *exact.as_dict()->find("inputs")) : "";
    if (!stolen.empty()) FAIL("bytes of the inputs are trusted: " << Json(stolen).dump());
    const auto kind = prompt ? TemplateErrorKind::kRuntime : prompt.error().kind;
    if ((kind == TemplateErrorKind::kUnsupported || kind == TemplateErrorKind::kLimit) && item.contains("rendered")) {
      ++unsupported;
      return;
    }
    const Rendering ours = prompt ? Rendering{true, prompt->text} : Rendering{false, prompt.error().text()};
    INFO("ours   " << Json(ours.text).dump(-1, ' ', false, Json::error_handler_t::replace));
    INFO("jinja2 " << (item.contains("rendered") ? item["rendered"] : item["error"]).dump());
    if (!agrees(ours, item)) FAIL("ours and jinja2 differ");
    ++(ours.ok ? same : both_refuse);
  }
};

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

TEST_CASE("chat.oracle.random_templates_render_the_bytes_of_jinja2", "[chat]") {
  Tally tally;
  for_each_answer_of("template_fuzzer.py", night_run() ? "8 100000" : "7 500", [&](const std::string& line) { tally.add(line); });
  std::printf("%d render alike, %d are refused by both, %d are not supported\n", tally.same, tally.both_refuse, tally.unsupported);
  CHECK(tally.same > 250);
  CHECK(tally.unsupported * 50 < tally.same);
}

// Needs the package index or its mirror: collects the templates once, then renders each over a matrix of chats.
TEST_CASE("chat.oracle.published_templates_render_the_bytes_of_jinja2", "[chat][night]") {
  if (!night_run()) skip("runs in the night: tools/test.sh --night");
  const auto folder = model_dir().parent_path() / "templates";
  const std::string fetch = "/usr/bin/python3 -B '" + (data_dir().parent_path() / "chat" / "fetch_templates.py").string() + "' '";
  if (!std::filesystem::exists(folder) && std::system((fetch + folder.string() + "'").c_str()) != 0)
    skip("no package index can be reached");
  Tally tally;
  for_each_answer_of("published_templates.py", "'" + folder.string() + "'", [&](const std::string& line) { tally.add(line); });
  std::printf("%d render alike, %d are refused by both, %d are not supported\n", tally.same, tally.both_refuse, tally.unsupported);
  CHECK(tally.same > 10'000);
  CHECK(tally.unsupported == 0);
}

// Every code point through every map and question, against the str of the python3 that runs the oracle.
TEST_CASE("chat.oracle.characters_have_the_case_and_the_properties_of_python", "[chat]") {
  namespace chat = kvpage::engine::chat;
  const TemporaryFolder folder;
  const auto answers = folder.path() / "characters.txt";
  const std::string script =
      "import sys\n"
      "every = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]\n"
      "for f in (str.lower, str.upper, str.title, str.casefold, str.swapcase, str.capitalize):\n"
      "    sys.stdout.buffer.write('\\n'.join(f('a' + c) + f(c) for c in every).encode() + b'\\n')\n"
      "for f in (str.isprintable, str.isalpha, str.isdecimal, str.isdigit, str.isnumeric, str.isupper, str.islower, str.istitle):\n"
      "    sys.stdout.buffer.write(''.join('01'[f(c)] for c in every).encode())\n";
  std::ofstream{folder.path() / "characters.py"} << script;
  const std::string command = "/usr/bin/python3 -B '" + (folder.path() / "characters.py").string() + "' > '" + answers.string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string right = read_text(answers);

  const auto for_every = [](auto visit) {
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string one;
      chat::encode_to(one, c);
      visit(c, one);
    }
  };
  std::string ours;
  const auto add_map = [&](auto function) {
    for_every([&](char32_t, const std::string& one) { ours += function("a" + one) + function(one) + "\n"; });
  };
  using chat::CaseMap;
  for (const CaseMap map : {CaseMap::kLower, CaseMap::kUpper}) add_map([&](const std::string& text) { return chat::mapped(text, map); });
  add_map([](const std::string& text) { return chat::title_cased(text); });
  add_map([](const std::string& text) { return chat::mapped(text, CaseMap::kFold); });
  add_map([](const std::string& text) { return chat::case_swapped(text); });
  add_map([](const std::string& text) { return chat::capitalized(text); });
  for (const unsigned bit : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
    for_every([&](char32_t c, const std::string&) { ours.push_back(chat::has_property(c, bit) ? '1' : '0'); });
  }
  for_every([&](char32_t, const std::string& one) { ours.push_back(chat::is_title_text(one) ? '1' : '0'); });

  const auto differs = std::mismatch(ours.begin(), ours.end(), right.begin(), right.end());
  INFO("first difference at byte " << differs.first - ours.begin());
  CHECK(ours.size() == right.size());
  CHECK(differs.first == ours.end());
}
