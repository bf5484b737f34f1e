#include "chat/chats.hpp"
#include "engine/chat/value.hpp"
#include "support/catch.hpp"

using namespace kvpage_test;
namespace chat = kvpage::engine::chat;
using kvpage::engine::ChatTemplate;
using kvpage::engine::TemplateErrorKind;

namespace {

bool compiles(const std::string& source) { return ChatTemplate::compile(source).has_value(); }

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

/// The kind of failure; the template must compile and must not render.
TemplateErrorKind failure(const std::string& source, const Json& inputs = Json::object()) {
  const auto prompt = ChatTemplate::compile(source).value().render(chat_inputs(inputs));
  INFO("template " << source.substr(0, 200));
  REQUIRE_FALSE(prompt.has_value());
  INFO(prompt.error().text());
  CHECK(prompt.error().line > 0);
  return prompt.error().kind;
}

bool hits_limit(const std::string& source, const Json& inputs = Json::object()) {
  return failure(source, inputs) == TemplateErrorKind::kLimit;
}

bool refused_for_depth(const std::string& source) {
  const auto compiled = ChatTemplate::compile(source);
  return !compiled && compiled.error().kind == TemplateErrorKind::kLimit && compiled.error().line > 0;
}

}  // namespace

TEST_CASE("chat.limits.a_source_has_at_most_256_kib", "[chat]") {
  CHECK(compiles(std::string(chat::kMaxSourceBytes, 'x')));
  const auto compiled = ChatTemplate::compile(std::string(chat::kMaxSourceBytes + 1, 'x'));
  REQUIRE_FALSE(compiled.has_value());
  CHECK(compiled.error().kind == TemplateErrorKind::kLimit);
  CHECK(compiled.error().message.find("262145") != std::string::npos);
  CHECK(compiled.error().message.find("262144") != std::string::npos);
}

TEST_CASE("chat.limits.nesting_of_the_source_is_capped", "[chat]") {
  for (const auto& [open, close] : {std::pair{"(", ")"}, {"[", "]"}, {"{'a':", "}"}, {"x[", "]"}, {"x|default(", ")"}, {"range(", ")"}}) {
    INFO("nesting " << open);
    CHECK(compiles("{{ " + repeated(open, 20) + "1" + repeated(close, 20) + " }}"));
    CHECK(refused_for_depth("{{ " + repeated(open, 20'000) + "1" + repeated(close, 20'000) + " }}"));
  }
  CHECK(refused_for_depth("{{ " + repeated("not ", 50'000) + "1 }}"));
  CHECK(refused_for_depth("{{ " + repeated("-", 100'000) + "1 }}"));
  CHECK(refused_for_depth("{{ x" + repeated(".a", 100'000) + " }}"));
  CHECK(refused_for_depth("{{ x" + repeated("|d", 100'000) + " }}"));
  CHECK(refused_for_depth("{{ x" + repeated(" if x else x", 10'000) + " }}"));
  CHECK(refused_for_depth(repeated("{% if x %}", 20'000)));
  CHECK(refused_for_depth(repeated("{% for x in y %}", 15'000)));
  CHECK(refused_for_depth(repeated("{% set x %}", 15'000)));
}

TEST_CASE("chat.limits.chains_of_operators_are_flat", "[chat]") {
  CHECK(render("{{ 0" + repeated(" + 1", 5000) + " }}", Json::object()).text == "5000");
  CHECK(render("{{ 'a'" + repeated(" ~ 'a'", 5000) + " }}", Json::object()).text == std::string(5001, 'a'));
  CHECK(render("{{ 1" + repeated(" and 1", 5000) + " }}", Json::object()).text == "1");
  CHECK(render("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}x{% endif %}", Json::object()).text == "x");
}

TEST_CASE("chat.limits.steps_are_capped", "[chat]") {
  CHECK(hits_limit("{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}"));
  CHECK(hits_limit("{% for a in range(10000) %}{% for b in range(10000) %}{% set x = a %}{% endfor %}{% endfor %}"));
  CHECK(hits_limit("{% set ns = namespace(l=[1]) %}{% for a in range(10000) %}{% set ns.l = ns.l + ns.l %}{% endfor %}"));
  CHECK(hits_limit("{% for a in range(10000) %}{% set x = s | upper %}{% endfor %}", {{"s", std::string(500'000, 'a')}}));
  CHECK(hits_limit("{% for a in range(10000) %}{% set x = t in s %}{% endfor %}",
                   {{"s", std::string(500'000, 'a')}, {"t", std::string(1000, 'a') + "b"}}));
  CHECK(hits_limit("{{ range(10000) | list | unique | list }}"));
  CHECK(render("{% set ns = namespace(n=0) %}{% for a in range(10000) %}{% set ns.n = ns.n + a %}{% endfor %}{{ ns.n }}", Json::object())
            .text == "49995000");
}

TEST_CASE("chat.limits.output_and_every_string_are_capped", "[chat]") {
  CHECK(hits_limit("{{ 'x' * 1000001 }}"));
  CHECK(render("{{ ('x' * 999999) | length }}", Json::object()).text == "999999");
  CHECK(hits_limit("{% for a in range(1001) %}" + std::string(1000, 'x') + "{% endfor %}"));
  CHECK(hits_limit("{% set ns = namespace(s='x') %}{% for a in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"));
  CHECK(hits_limit("{{ s.replace('a', 'bbbbbbbbbb') }}", {{"s", std::string(200'000, 'a')}}));
  CHECK(hits_limit("{{ l | tojson(indent=1000) }}", {{"l", Json::array({1, 2, Json::array({std::string(999'000, 'x')})})}}));
  CHECK(hits_limit("{{ l | tojson(indent=100000000000) }}", {{"l", Json::array({1})}}));
  CHECK(hits_limit("{{ l | join(s) }}", {{"l", Json::array({1, 2, 3})}, {"s", std::string(600'000, 'x')}}));
  CHECK(hits_limit("{{ messages[0].content }}", {{"messages", Json::array({{{"content", std::string(1'000'001, 'x')}}})}}));
}

TEST_CASE("chat.limits.ranges_values_and_calls_are_capped", "[chat]") {
  CHECK(render("{{ range(10000) | length }}", Json::object()).text == "10000");
  CHECK(hits_limit("{{ range(10001) | length }}"));
  CHECK(hits_limit("{{ range(0, -9223372036854775807, -1) | length }}"));
  CHECK(render("{{ range(9223372036854775806, 9223372036854775807, 5) | length }}", Json::object()).text == "1");
  CHECK(hits_limit("{% set ns = namespace(v=[]) %}{% for a in range(100) %}{% set ns.v = [ns.v] %}{% endfor %}"));
  CHECK(hits_limit("{% set ns = namespace(v={}) %}{% for a in range(100) %}{% set ns.v = {'a': ns.v} %}{% endfor %}"));
  CHECK(hits_limit("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"));
  CHECK(hits_limit("{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"));
  CHECK(hits_limit("{% macro f() %}" + repeated("{% if 1 %}", 60) + "{{ f() }}" + repeated("{% endif %}", 60) + "{% endmacro %}{{ f() }}"));
  CHECK(refused_for_depth("{{ 'a' | map('map'" + repeated(", 'map'", 20'000) + ") | list }}"));
  CHECK(hits_limit("{{ '[' | indent(5000) }}"));
  CHECK(hits_limit("{% for x in t recursive %}{{ loop(t) }}{% endfor %}", {{"t", Json::array({1})}}));
  CHECK(hits_limit("{{ 'a' | map(*(['map'] * 100)) | list }}"));
}

// Keys are compared byte by byte, names one by one, and tuples that share their parts are trees.
TEST_CASE("chat.limits.searches_for_keys_and_names_are_capped", "[chat]") {
  CHECK(hits_limit("{{ dict([['a' * 999990, 1]] * 150000) }}"));
  CHECK(hits_limit("{{ dict([[('a' * 999990,), 1]] * 150000) }}"));
  CHECK(hits_limit("{{ dict([[7 ** 4000, 1]] * 150000) }}"));
  const std::string loops = "{% for a in range(10000) %}{% for b in range(9) %}", ends = "{% endfor %}{% endfor %}";
  const std::string long_key = "{% set k = 'a' * 999990 %}{% set d = {k: 1} %}";
  for (const char* look : {"d[k]", "d.get(k)", "k in d", "d == d"}) {
    INFO(look);
    CHECK(hits_limit(long_key + loops + "{% set x = " + look + " %}" + ends));
  }
  const std::string tree = "{% set ns = namespace(t=('a', 'b')) %}{% for a in range(50) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}";
  for (const char* use : {"{{ {ns.t: 1} }}", "{{ {}[ns.t] }}", "{{ {}.get(ns.t) }}", "{{ ns.t in {} }}", "{{ [ns.t] | unique | list }}"}) {
    INFO(use);
    CHECK(hits_limit(tree + use));
  }
  Json many = Json::object();
  for (int i = 0; i < 5'000; ++i) many["n" + std::to_string(i)] = i;
  CHECK(hits_limit("{{ range(**m) }}", {{"m", many}}));
  CHECK(hits_limit("{{ ('{n4999}' * 100000).format_map(m) }}", {{"m", many}}));
  CHECK(hits_limit("{% set ns = namespace(m) %}" + loops + "{% set x = ns.n4999 %}" + ends, {{"m", many}}));
  CHECK(render("{{ m.n4999 }}{{ dict(m)['n7'] }}{{ '{n5}'.format_map(m) }}", {{"m", many}}).text == "499975");
}

// Each of these asks for gigabytes, or for hours, in a few characters.
TEST_CASE("chat.limits.formats_and_integers_are_capped", "[chat]") {
  for (const char* source :
       {"{{ '%1000000000d' % 1 }}", "{{ '%.1000000000d' % 1 }}", "{{ '%-99999999999999999999s' % 'x' }}", "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%.999999999f' % 1.5 }}", "{{ '%1000001s' % '' }}", "{{ '{:1000000000}'.format(1) }}", "{{ '{:.1000000000f}'.format(1.5) }}",
        "{{ '{:{}}'.format(1, 1000000000) }}", "{{ 'x'.center(1000000000) }}", "{{ 'x'.zfill(9223372036854775807) }}",
        "{{ 'x'.ljust(1000000000, '-') }}", "{{ ('\\t' * 1000).expandtabs(1000000) }}", "{{ 'x' | center(1000001) }}",
        "{{ 10 ** 10000000000 }}", "{{ 2 ** (2 ** (2 ** (2 ** (2 ** 2)))) }}", "{{ 9 ** 4000 * 9 ** 4000 }}", "{{ ('9' * 100000) | int }}",
        "{{ [1] * 10000000000 }}"}) {
    CHECK(hits_limit(source));
  }
  CHECK(hits_limit("{% for a in range(10000) %}{% set x = (7 ** 5000 - 1) // (3 ** 3000 + 1) %}{% endfor %}"));
  CHECK(hits_limit("{% for a in range(10000) %}{% set x = '%d' % (7 ** 5000) %}{% endfor %}"));
  CHECK(hits_limit("{% for a in range(10000) %}{% set x = '%.1000f' % 1.5 %}{% set y = '%100000d' % 1 %}{% endfor %}"));
  CHECK(hits_limit("{% for a in range(10000) %}{% set x = s.title() %}{% endfor %}", {{"s", std::string(500'000, 'a')}}));
  CHECK(render("{{ ('%500000d' % 1) | length }}{{ (2 ** 14000) | string | length }}", Json::object()).text == "5000004215");
}

// A sigma looks for the ends of its word: nobody pays for that twice.
TEST_CASE("chat.limits.case_maps_are_linear", "[chat]") {
  std::string text = "a";
  for (int i = 0; i < 60'000; ++i) text += "\xCE\xA3.";  // capital sigmas with case-ignorable characters between
  const std::string dots(200'000, '.');
  CHECK(render("{{ s.lower() | length }}", {{"s", text}}).text == "120001");
  CHECK(render("{{ s.lower() | length }}", {{"s", "a" + dots + "\xCE\xA3" + dots + "\xCE\xA3" + dots}}).text == "600003");
}

TEST_CASE("chat.limits.a_namespace_may_hold_itself_and_nothing_leaks", "[chat]") {
  const std::string cycle = "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.l = [a, b] %}";
  CHECK(render(cycle + "{{ a.b.a.b.a.l | length }}{{ a == b.a }}", Json::object()).text == "2True");
  CHECK(failure(cycle + "{{ a.l }}") == TemplateErrorKind::kRuntime);
  CHECK(failure(cycle + "{{ a.l | tojson }}") == TemplateErrorKind::kRuntime);
  CHECK(render("{% for x in [1] %}{% set ns = namespace(l=loop) %}{{ ns.l.index }}{% endfor %}", Json::object()).text == "1");
}
