/// \file B48: from messages through the template to ids there is exactly one BOS, whoever writes it.
#include "engine/chat/chat_template.hpp"
#include "tokenizer/toy_vocabulary.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace kvpage_test {
namespace {

using kvpage::TokenId;

constexpr TokenId kBos = 256;

std::vector<TokenId> chat_ids(const std::string& source, bool add_bos, const std::string& content) {
  ToyVocabulary vocabulary = ToyVocabulary::bpe();
  vocabulary.data.bos = vocabulary.add("<s>", kvpage::engine::TokenType::kControl);
  vocabulary.data.add_bos = add_bos;
  const auto compiled = kvpage::engine::ChatTemplate::compile(source);
  REQUIRE(compiled);
  kvpage::engine::ChatInputs inputs;
  const auto messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", content}}});
  inputs.messages = kvpage::engine::template_value(messages.dump()).value();
  inputs.bos_token = "<s>";
  const auto rendered = compiled->render(inputs);
  REQUIRE(rendered);
  return vocabulary.make().encode_chat(rendered->text, rendered->trusted);
}

}  // namespace

TEST_CASE("bug.B48.messages_become_ids_with_exactly_one_bos", "[engine]") {
  const std::string body = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}";
  for (const std::string& source : {"{{ bos_token }}" + body, "<s>" + body, body}) {
    for (const bool add_bos : {false, true}) {
      for (const char* content : {"hi", "<s>", "<s><s>hi<s>", ""}) {
        INFO(source << ", add_bos " << add_bos << ", content " << content);
        const auto ids = chat_ids(source, add_bos, content);
        const bool wants_bos = add_bos || source != body;
        CHECK(std::count(ids.begin(), ids.end(), kBos) == (wants_bos ? 1 : 0));
        CHECK((ids.front() == kBos) == wants_bos);
        CHECK(ids.size() == std::string_view(content).size() + 2 + (wants_bos ? 1 : 0));
      }
    }
  }
}

}  // namespace kvpage_test
