#include "chat/chats.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <vector>

using namespace kvpage_test;
using kvpage::engine::ChatTemplate;

namespace {

constexpr std::uint64_t kSeed = 77;

std::vector<std::string> all_templates() {
  std::vector<std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(data_dir() / "templates")) {
    if (entry.path().extension() == ".jinja") sources.push_back(read_text(entry.path()));
  }
  std::ifstream file(data_dir() / "templates" / "snippets.jsonl", std::ios::binary);
  for (std::string line; std::getline(file, line);) sources.push_back(Json::parse(line).get<std::string>());
  std::sort(sources.begin(), sources.end());
  return sources;
}

/// What templates are made of, to be inserted anywhere.
std::vector<std::string> tokens() {
  std::istringstream words{R"({{ }} {% %} {# #} -%} {%- ( ) [ ] { } | . , : ~ ** // % ' " \ _ if else for in is not and or loop loop.last
                              namespace( range( |list |tojson |first |sort [::-1] .items() messages none -1 1e308 9223372036854775807
                              {%endfor%} {%endif%} {%break%} {%set(x)= {%generation%} {{f(1)}} |map('upper') {%raw%} {%endset%}
                              .format( |format( {:>9} %s %d % with filter block call macro recursive loop( |safe |int(0, |e .title()
                              caller() varargs *[] **{} cycler( joiner( 2**99 {1:2} _a |groupby('role') {%filter(upper)%} {%endfilter%})"};
  std::vector<std::string> result{" ", "\n", "\r", "\x80", "\xF0\x9F\x99\x82", std::string(1, '\0'), " if ", " else ", " for ", " in "};
  for (std::string word; words >> word;) result.push_back(word);
  return result;
}

/// Cuts, copies, swaps and rewrites pieces of templates.
class Mutator {
 public:
  Mutator(std::vector<std::string> sources, std::uint64_t seed) : sources_(std::move(sources)), random_(seed) {}

  std::string next() {
    std::string text = sources_[pick(sources_.size())];
    for (std::size_t edits = 1 + pick(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>{0, count - 1}(random_); }

  std::string piece(const std::string& of) {
    const std::size_t begin = pick(of.size() + 1);
    return of.substr(begin, pick(30));
  }

  void edit(std::string& text) {
    const std::size_t at = pick(text.size() + 1);
    switch (pick(5)) {
      case 0: text.erase(at, pick(12)); break;
      case 1: text.insert(at, tokens_[pick(tokens_.size())]); break;
      case 2: text.insert(at, piece(sources_[pick(sources_.size())])); break;
      case 3: text.insert(at, piece(text)); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(static_cast<unsigned char>(pick(256)));
    }
  }

  std::vector<std::string> sources_;
  std::vector<std::string> tokens_ = tokens();
  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("chat.mutation.no_template_crashes_or_gives_untrue_spans", "[chat]") {
  Mutator mutator{all_templates(), kSeed};
  ChatGenerator chats{kSeed};
  std::vector<kvpage::engine::ChatInputs> inputs;
  for (int i = 0; i < 8; ++i) inputs.push_back(chat_inputs(chats.next()));
  const int rounds = night_run() ? 1'000'000 : 12'000;
  int compiled_count = 0, rendered_count = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string source = mutator.next();
    const auto compiled = ChatTemplate::compile(source);
    if (!compiled) {
      if (compiled.error().message.empty()) FAIL("no message, seed " << kSeed << ", round " << round << ": " << source);
      continue;
    }
    ++compiled_count;
    const auto prompt = compiled->render(inputs[static_cast<std::size_t>(round) % inputs.size()]);
    if (!prompt) {
      if (prompt.error().line < 1 || prompt.error().message.empty())
        FAIL("no place, seed " << kSeed << ", round " << round << ": " << source);
      continue;
    }
    ++rendered_count;
    std::size_t end = 0;
    for (const auto& span : prompt->trusted) {
      if (span.begin >= span.end || span.begin < end || span.end > prompt->text.size())
        FAIL("spans, seed " << kSeed << ", round " << round);
      end = span.end;
    }
  }
  std::printf("seed %llu: %d mutants, %d compile, %d render\n", static_cast<unsigned long long>(kSeed), rounds, compiled_count,
              rendered_count);
  CHECK(compiled_count > rounds / 20);
  CHECK(rendered_count > rounds / 50);
}

TEST_CASE("chat.mutation.every_prefix_of_every_template_is_an_answer_or_an_error", "[chat]") {
  int checked = 0;
  for (const std::string& source : all_templates()) {
    for (std::size_t size = 0; size <= source.size(); ++size) {
      const auto compiled = ChatTemplate::compile(std::string_view{source}.substr(0, size));
      if (!compiled && compiled.error().message.empty()) FAIL("no message for " << source.substr(0, size));
      ++checked;
    }
  }
  CHECK(checked > 10'000);
}
