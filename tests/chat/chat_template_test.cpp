#include "chat/chats.hpp"
#include "support/catch.hpp"

#include <array>
#include <thread>

using namespace kvpage_test;
using kvpage::engine::ChatInputs;
using kvpage::engine::ChatTemplate;
using kvpage::engine::TemplateError;
using kvpage::engine::TemplateErrorKind;

namespace {

TemplateError compile_error(const std::string& source) {
  const auto compiled = ChatTemplate::compile(source);
  INFO("template " << source);
  REQUIRE_FALSE(compiled.has_value());
  return compiled.error();
}

TemplateError render_error(const std::string& source, const Json& inputs = Json::object()) {
  INFO("template " << source);
  const auto compiled = ChatTemplate::compile(source);
  REQUIRE(compiled.has_value());
  const auto prompt = compiled->render(chat_inputs(inputs));
  REQUIRE_FALSE(prompt.has_value());
  return prompt.error();
}

struct Wrong {
  const char* source;
  TemplateErrorKind kind;
  int line;
  const char* part;  // of the message
};

void check(const TemplateError& error, const Wrong& wrong) {
  INFO("template " << wrong.source << ", error " << error.text());
  CHECK(error.kind == wrong.kind);
  CHECK(error.line == wrong.line);
  CHECK(error.message.find(wrong.part) != std::string::npos);
}

constexpr auto kUnsupported = TemplateErrorKind::kUnsupported;
constexpr auto kSyntax = TemplateErrorKind::kSyntax;
constexpr auto kRuntime = TemplateErrorKind::kRuntime;

}  // namespace

TEST_CASE("chat.compile.an_unsupported_construct_is_an_error_with_its_line", "[chat]") {
  const Wrong cases[] = {
      {"a\n{% do x %}", kUnsupported, 2, "do"},
      {"{% trans %}x{% endtrans %}", kUnsupported, 1, "trans"},
      {"{{ x[1:2, 3] }}", kUnsupported, 1, "slices"},
      {"{{ x[1, 2:3] }}", kUnsupported, 1, "slices"},
      {"{{ '\\N{DASH}' }}", kUnsupported, 1, "escape"},
  };
  for (const Wrong& wrong : cases) check(compile_error(wrong.source), wrong);
}

// A template may keep branches for other engines: only what a chat reaches matters.
TEST_CASE("chat.render.what_is_unsupported_is_an_error_only_when_it_is_reached", "[chat]") {
  const Wrong cases[] = {
      {"a\n{% include 'x' %}", kUnsupported, 2, "include"},
      {"\n\n{% import 'x' as y %}", kUnsupported, 3, "import"},
      {"{% from 'x' import y with context %}", kUnsupported, 1, "from"},
      {"{% extends 'x' %}", kUnsupported, 1, "extends"},
      {"{% autoescape true %}{% endautoescape %}", kUnsupported, 1, "autoescape"},
      {"x\n{{ 'y' | urlize }}", kUnsupported, 2, "urlize"},
      {"{{ [1] | random }}", kUnsupported, 1, "random"},
      {"{{ 1 | from_json }}", kUnsupported, 1, "from_json"},
      {"x\n\n{{ 1 is nope }}", kUnsupported, 3, "nope"},
      {"{{ [1] | map('nope') }}", kUnsupported, 1, "nope"},
      {"{{ [{}] | selectattr('a', 'nope') }}", kUnsupported, 1, "nope"},
      {"{{ [].append(1) }}", kUnsupported, 1, "append"},
      {"{{ {}.update(a=1) }}", kUnsupported, 1, "update"},
      {"{{ 'x'.encode() }}", kUnsupported, 1, "encode"},
      {"{{ (1).real }}", kUnsupported, 1, "real"},
      {"{% if 1 %}\n{{ lipsum() }}\n{% endif %}", kUnsupported, 2, "lipsum"},
      {"{{ unknown(1) }}", kRuntime, 1, "'unknown' is not defined"},
      {"x\n{% block b required %}{# #} {% endblock %}", kRuntime, 2, "required block"},
      {"{{ 'x'.nope() }}", kRuntime, 1, "no method 'nope'"},
  };
  for (const Wrong& wrong : cases) {
    check(render_error(wrong.source), wrong);
    const Rendering unreached = render("{% if false %}" + std::string{wrong.source} + "{% endif %}ok", Json::object());
    INFO(wrong.source << ": " << unreached.text);
    CHECK(unreached.ok);
    CHECK(unreached.text == "ok");
  }
}

TEST_CASE("chat.compile.a_malformed_template_is_an_error_with_its_line", "[chat]") {
  const Wrong cases[] = {
      {"a\n{{ x", kSyntax, 2, "does not end"},
      {"{% if x %}\n\ny", kSyntax, 1, "endif"},
      {"{% for x in y %}", kSyntax, 1, "endfor"},
      {"{% endif %}", kSyntax, 1, "without its opening"},
      {"\n{% else %}", kSyntax, 2, "without its opening"},
      {"{{ }}", kSyntax, 1, "expression"},
      {"{{ 1 + }}", kSyntax, 1, "expression"},
      {"{{ (1 }}", kSyntax, 1, "unexpected '}'"},
      {"{{ [1) }}", kSyntax, 1, "unexpected ')'"},
      {"{{ 'x }}", kSyntax, 1, "string"},
      {"{{ x y }}", kSyntax, 1, "expected }}"},
      {"{{ x $ }}", kSyntax, 1, "'$'"},
      {"{{ 1..5 }}", kSyntax, 1, "a name"},
      {"{{ 1e999 }}", kSyntax, 1, "out of range"},
      {"{% set true = 1 %}", kSyntax, 1, "constant"},
      {"{{ f(a=1, a=2) }}", kSyntax, 1, "twice"},
      {"{{ f(**x, *y) }}", kSyntax, 1, "order"},
      {"{% macro f(caller) %}{% endmacro %}", kSyntax, 1, "default"},
      {"{% block b %}{% endblock %}{% block b %}{% endblock %}", kSyntax, 1, "twice"},
      {"{% block b required %}x{% endblock %}", kSyntax, 1, "has content"},
      {"{% for x in y %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", kSyntax, 1, "outside of a loop"},
      {"{{ '\\ud800' }}", kSyntax, 1, "no Unicode"},
      {"{{ '\\x4' }}", kSyntax, 1, "hex digits"},
      {"{# never closed", kSyntax, 1, "comment"},
      {"\n{% raw %}\n", kSyntax, 2, "raw"},
      {"{% %}", kSyntax, 1, "name of a tag"},
      {"{% break %}", kSyntax, 1, "outside of a loop"},
      {"{% for x in y %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}", kSyntax, 1, "outside of a loop"},
      {"{% macro f(a=1, b) %}{% endmacro %}", kSyntax, 1, "default"},
      {"{{ f(a=1, 2) }}", kSyntax, 1, "without a name"},
      {"{{ x is none is none }}", kSyntax, 1, "chained"},
      {"{% set 5 = x %}", kSyntax, 1, "a name"},
      {"\xff", kSyntax, 0, "UTF-8"},
  };
  for (const Wrong& wrong : cases) check(compile_error(wrong.source), wrong);
}

// `a.b` reads maps and calls listed methods; nothing leads to the objects behind. A variable may start with one underscore.
TEST_CASE("rule.R15.template_names_with_an_underscore_are_refused", "[chat]") {
  for (const char* source :
       {"{{ x.__class__ }}", "{{ x._private }}", "{{ __import__ }}", "{{ x.__init__() }}", "{{ x['__class__'] }}", "{{ x['_a'] }}",
        "{% set n._x = 1 %}", "{{ namespace(_x=1) }}", "{{ dict(_x=1) }}", "{{ x._ }}", "{% set __x = 1 %}",
        "{% for __y in x %}{% endfor %}", "{% macro __f() %}{% endmacro %}", "{% macro f(__a) %}{% endmacro %}", "{{ f(__a=1) }}",
        "{% with __a = 1 %}{% endwith %}", "{% for a, (b, __c) in x %}{% endfor %}"}) {
    const TemplateError error = compile_error(source);
    INFO(source << ": " << error.text());
    CHECK(error.kind == kUnsupported);
    CHECK(error.message.find("underscore") != std::string::npos);
  }
  for (const char* source :
       {"{{ [{'a': 1}] | map(attribute='__class__') | list }}", "{{ '{0.__class__}'.format(1) }}", "{{ '{0[_a]}'.format({}) }}",
        "{{ 1 | attr('__class__') }}", "{{ namespace({'_x': 1}) }}", "{{ namespace(**{'_x': 1}) }}"}) {
    const TemplateError error = render_error(source);
    INFO(source << ": " << error.text());
    CHECK(error.kind == kUnsupported);
    CHECK(error.message.find("underscore") != std::string::npos);
  }
  CHECK(render("{% for _ in range(2) %}x{% endfor %}", Json::object()).text == "xx");
  CHECK(render("{% set _a = 1 %}{% macro _f(_b) %}{{ _b + _a }}{% endmacro %}{{ _f(_b=2) }}", Json::object()).text == "3");
}

TEST_CASE("chat.sandbox.an_attribute_never_hides_a_key_behind_a_method", "[chat]") {
  const Json inputs{{"m", {{"items", 1}, {"pop", 2}, {"other", 3}}}};
  CHECK(render_error("{{ m.items }}", inputs).message.find("['items']") != std::string::npos);
  CHECK(render_error("{{ m.pop }}", inputs).kind == kUnsupported);
  CHECK(render("{{ m['items'] }}{{ m.other }}{{ m['pop'] }}", inputs).text == "132");
}

TEST_CASE("chat.render.a_failure_names_the_line_where_it_happens", "[chat]") {
  const Wrong cases[] = {
      {"a\n{{ x.y }}", kRuntime, 2, "'x' is undefined"},
      {"a\n\n{{ 1\n+ 'a' }}", kRuntime, 3, "integer + string"},
      {"{% macro f(x) %}\n\n{{ x + 1 }}{% endmacro %}\n{{ f('a') }}", kRuntime, 3, "string + integer"},
      {"\n{{ raise_exception('only users') }}", TemplateErrorKind::kRaised, 2, "only users"},
      {"\n{{ strftime_now('%Q') }}", kUnsupported, 2, "%Q"},
      {"{{ 'a' % 1 }}", kRuntime, 1, "over"},
      {"{{ {[]: 2} }}", kRuntime, 1, "key of a map"},
      {"{{ range }}", kRuntime, 1, "function cannot be written"},
      {"{% set f = 1 %}{{ f() }}{% if false %}{% macro f() %}{% endmacro %}{% endif %}", kRuntime, 1, "no function"},
      {"{{ 2 ** 20000 }}", TemplateErrorKind::kLimit, 1, "bits"},
      {"{{ namespace(a=1) }}", kRuntime, 1, "cannot be written"},
      {"{{ [1] | map('upper') }}", kRuntime, 1, "|list"},
  };
  for (const Wrong& wrong : cases) check(render_error(wrong.source), wrong);
}

// The name of what is missing may be a text that is gone when the message is written.
TEST_CASE("chat.render.an_undefined_value_outlives_the_text_that_named_it", "[chat]") {
  const std::string name = "'a_name_that_is_too_long_for_a_small_string' ~ 1";
  CHECK(render_error("{% set u = 1 | attr(" + name + ") %}{{ u.x }}").message.find("an undefined value") != std::string::npos);
  CHECK(render_error("{{ ([{}] | map('attr', " + name + ") | list)[0].x }}").message.find("an undefined value") != std::string::npos);
  CHECK(render_error("{{ {}.zz.x }}").message.find("'zz' is undefined") != std::string::npos);
}

TEST_CASE("chat.render.inputs_are_only_read_and_may_be_shared_between_threads", "[chat]") {
  const auto compiled =
      ChatTemplate::compile("{% for m in messages %}{{ m.content }}{{ l | join }}{{ l | first }}{{ 2 in l }}{% endfor %}").value();
  const Json inputs{{"messages", Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "user"}, {"content", "b"}}})},
                    {"l", {1, 2, 3}}};
  const ChatInputs shared = chat_inputs(inputs);
  std::array<std::string, 2> texts;
  {
    std::array<std::jthread, 2> threads;
    for (std::size_t i = 0; i < 2; ++i) threads[i] = std::jthread{[&, i] { texts[i] = compiled.render(shared).value().text; }};
  }
  CHECK(texts[0] == "a1231Trueb1231True");
  CHECK(texts[1] == texts[0]);
  CHECK(shared.messages.as_list()->taken == 0);
  CHECK(shared.arguments.at(0).second.as_list()->taken == 0);
}

TEST_CASE("chat.render.time_comes_only_from_the_caller", "[chat]") {
  const auto compiled = ChatTemplate::compile("{{ strftime_now('%Y-%m-%d') }}").value();
  ChatInputs inputs;
  CHECK(compiled.render(inputs).error().message.find("does not give") != std::string::npos);
  inputs.local_time = fixed_time;
  CHECK(compiled.render(inputs).value().text == "2024-07-06");
}

TEST_CASE("chat.render.arguments_hide_the_standard_names_and_a_template_renders_many_times", "[chat]") {
  const auto compiled = ChatTemplate::compile("{{ bos_token }}{{ style | default('none') }}{{ tools }}{{ add_generation_prompt }}").value();
  ChatInputs inputs;
  inputs.bos_token = "<s>";
  CHECK(compiled.render(inputs).value().text == "<s>noneNoneTrue");
  inputs.arguments.emplace_back("style", kvpage::engine::chat::Value::text(std::string{"short"}));
  inputs.arguments.emplace_back("tools", kvpage::engine::chat::Value::integer(3));
  inputs.add_generation_prompt = false;
  CHECK(compiled.render(inputs).value().text == "<s>short3False");
}

TEST_CASE("chat.json.values_keep_order_and_refuse_what_they_cannot_hold", "[chat]") {
  using kvpage::engine::template_value;
  CHECK(render("{{ v | tojson }}", {{"v", Json::parse(R"({"z":1,"a":[null,true,-5,2.5,"x"],"m":{}})")}}).text ==
        R"({"z": 1, "a": [null, true, -5, 2.5, "x"], "m": {}})");
  CHECK(render("{{ v | tojson }}", {{"v", 18446744073709551615ull}}).text == "18446744073709551615");
  const auto number = template_value("[123456789012345678901234567890, -18446744073709551616, -0, 1e2]").value();
  ChatInputs inputs;
  inputs.arguments.emplace_back("v", number);
  CHECK(ChatTemplate::compile("{{ v | tojson }}{{ v[0] + 1 }}").value().render(inputs).value().text ==
        "[123456789012345678901234567890, -18446744073709551616, 0, 100.0]123456789012345678901234567891");
  CHECK(template_value(std::string(5000, '9')).error().message.find("overflow") != std::string::npos);
  CHECK(template_value("[1, 2").error().kind == kSyntax);
  CHECK(template_value("[1, 2").error().message.starts_with("parse error at byte 6: "));
  CHECK(template_value(std::string_view("[1]\0, 2", 7)).error().message == "byte 4 (0x00) is no JSON");
  CHECK(template_value("{\"a\": 1} x").error().kind == kSyntax);
  std::string deep(65, '[');
  deep += std::string(65, ']');
  CHECK(template_value(deep).error().kind == TemplateErrorKind::kLimit);
  CHECK(template_value(deep.substr(1, 128)).has_value());
}
