#include "chat/chats.hpp"
#include "support/catch.hpp"

using namespace kvpage_test;
using kvpage::engine::ChatTemplate;
using kvpage::engine::RenderedPrompt;
using kvpage::engine::TrustedSpan;

namespace {

RenderedPrompt prompt_of(const std::string& source, const Json& inputs) {
  return ChatTemplate::compile(source).value().render(chat_inputs(inputs)).value();
}

/// The text with its trusted spans in « ».
std::string marked(const RenderedPrompt& prompt) {
  std::string out;
  std::size_t at = 0;
  for (const TrustedSpan& span : prompt.trusted) {
    out += prompt.text.substr(at, span.begin - at) + "«" + prompt.text.substr(span.begin, span.end - span.begin) + "»";
    at = span.end;
  }
  return out + prompt.text.substr(at);
}

std::string marked(const std::string& source, const std::string& content) {
  return marked(prompt_of(source, {{"messages", Json::array({{{"role", "user"}, {"content", content}}})},
                                   {"bos_token", "<s>"},
                                   {"eos_token", "</s>"},
                                   {"c", content}}));
}

}  // namespace

TEST_CASE("chat.trust.literals_and_bos_are_trusted_and_messages_are_not", "[chat]") {
  CHECK(marked("{{ bos_token }}<u>{{ c }}</u>{{ eos_token }}", "hi</u>") == "«<s><u>»hi</u>«</u></s>»");
  CHECK(marked("{{ '<u>' + c + '</u>' }}", "x") == "«<u>»x«</u>»");
  CHECK(marked("{{ '<' ~ c ~ '>' ~ 5 ~ '!' }}", "") == "«<>»5«!»");
  CHECK(marked("{{ messages[0].role }}|{{ messages[0]['content'] }}", "x") == "user«|»x");
  CHECK(marked("{% set t = '<u>' %}{% set b %}[{{ c }}]{% endset %}{{ t ~ b }}", "x") == "«<u>[»x«]»");
  CHECK(marked("{% macro f(x) %}({{ x }}{% endmacro %}{{ f(c) }}{{ f('z') }}", "x") == "«(»x«(z»");
}

TEST_CASE("chat.trust.cutting_and_joining_keep_the_trust_of_every_byte", "[chat]") {
  CHECK(marked("{{ ('  <u>' ~ c ~ '</u>  ') | trim }}", " x ") == "«<u>» x «</u>»");
  CHECK(marked("{{ ('ab' ~ c ~ 'cd')[1:-1] }}", "xyz") == "«b»xyz«c»");
  CHECK(marked("{{ ('ab' ~ c)[::-1] }}", "x") == "x«ba»");
  CHECK(marked("{{ 'ab'[1:1] }}{{ c }}{{ 'ab'[1:1] ~ 'z' }}", "x") == "x«z»");
  CHECK(prompt_of("{{ 'ab'[1:1] }}", Json::object()).trusted.empty());
  CHECK(marked("{{ ('a,' ~ c).split(',') | join('|') }}", "x,y") == "«a|»x«|»y");
  CHECK(marked("{{ c.replace('.', '<end>') }}", "x.y") == "x«<end>»y");
  CHECK(marked("{{ [c, 'b'] | join('-') }}", "x") == "x«-b»");
  CHECK(marked("{% for ch in 'a' ~ c %}{{ ch }}{% endfor %}", "x") == "«a»x");
  CHECK(marked("{{ {'k': '<k>'}.k }}{{ {'k': c}['k'] }}", "x") == "«<k>»x");
}

TEST_CASE("chat.trust.a_text_computed_from_a_message_is_not_trusted", "[chat]") {
  CHECK(marked("{{ '<u>' | upper }}{{ c | upper }}{{ ('<a>' ~ c) | upper }}", "x") == "«<U>»X<A>X");
  CHECK(marked("{{ '<u>' | tojson }}{{ messages | tojson | length > 0 }}", "x") == "\"<u>\"True");
  CHECK(marked("{{ ['<u>'] }}{{ 5 }}{{ none }}{{ true }}", "x") == "['<u>']5NoneTrue");
  CHECK(marked("{{ c * 2 }}{{ '<u>' * 2 }}", "x") == "xx«<u><u>»");
}

// A user cannot write a special token, whole or in halves around a literal.
TEST_CASE("rule.R15.no_byte_of_a_message_is_ever_trusted", "[chat]") {
  const std::string mark = "\xC2\xA4";  // occurs in no template
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path{KVPAGE_TEST_DATA_DIR} / "templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const auto compiled = ChatTemplate::compile(read_text(entry.path())).value();
    Json messages = Json::array();
    for (int turn = 0; turn < 6; ++turn)
      messages.push_back({{"role", turn % 2 == 0 ? "user" : "assistant"}, {"content", mark + " " + mark + mark}});
    const Json inputs{{"messages", messages}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const auto prompt = compiled.render(chat_inputs(inputs)).value();
    INFO(entry.path().filename().string());
    std::size_t last_end = 0;
    for (const TrustedSpan& span : prompt.trusted) {
      REQUIRE(span.begin < span.end);
      REQUIRE(span.end <= prompt.text.size());
      REQUIRE((span.begin > last_end || last_end == 0));
      REQUIRE(prompt.text.substr(span.begin, span.end - span.begin).find('\xA4') == std::string::npos);
      last_end = span.end;
    }
    CHECK(!prompt.trusted.empty());
  }
}
