/// \file str.format.
#include "engine/chat/string_format.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/template_error.hpp"
#include "engine/chat/text_ops.hpp"

#include <algorithm>
#include <charconv>

namespace kvpage::engine::chat {
namespace {

constexpr auto kNpos = std::string_view::npos;

std::optional<std::int64_t> index_of(std::string_view digits) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = !digits.empty() && digits[0] != '-' && parsed.ec == std::errc{} && parsed.ptr == digits.data() + digits.size();
  return whole ? std::optional{value} : std::nullopt;
}

class BraceFormat {
 public:
  BraceFormat(Budget& budget, const TrustedText& format, const Arguments& arguments)
      : budget_(budget), format_(format), arguments_(arguments) {}

  TrustedText run() { return expand(format_, 2); }

 private:
  TrustedText expand(const TrustedText& format, int levels) {
    if (levels == 0) fail_runtime("a format nests too deep");
    const std::string_view text = format.bytes();
    budget_.charge_bytes(text.size());
    TrustedText out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append_slice(format, at, brace);
      if (brace == text.size()) break;
      at = brace + 1;
      if (at < text.size() && text[at] == text[brace]) {
        out.append_slice(format, at, at + 1);
        ++at;
      } else if (text[brace] == '}') {
        fail_runtime("a format has a single '}'");
      } else {
        out.append(field(format, at, levels));
      }
    }
    return out;
  }

  /// The field behind the brace before `at`, which moves behind its end.
  TrustedText field(const TrustedText& format, std::size_t& at, int levels) {
    const std::string_view text = format.bytes();
    const std::size_t begin = at;
    bool in_brackets = false;
    for (; at < text.size() && (in_brackets || std::string_view{"{}:!"}.find(text[at]) == kNpos); ++at) {
      in_brackets = text[at] == '[' || (in_brackets && text[at] != ']');
    }
    if (at == text.size() || text[at] == '{') fail_runtime("a format has a '{' without its end");
    const Value value = lookup(text.substr(begin, at - begin));
    char conversion = '\0';
    if (text[at] == '!') {
      if (at + 2 >= text.size() || (text[at + 2] != ':' && text[at + 2] != '}')) fail_runtime("a format lacks its conversion");
      conversion = text[at + 1];
      at += 2;
    }
    TrustedText spec;
    if (text[at] == ':') spec = specification(format, ++at, levels);
    ++at;
    return written(value, conversion, spec);
  }

  TrustedText specification(const TrustedText& format, std::size_t& at, int levels) {
    const std::string_view text = format.bytes();
    const std::size_t begin = at;
    int open = 1;
    for (; at < text.size(); ++at) {
      open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (at == text.size()) fail_runtime("a format has a '{' without its end");
    const TrustedText spec = format.slice(begin, at);
    return spec.bytes().find('{') == kNpos ? spec : expand(spec, levels - 1);
  }

  TrustedText written(const Value& held, char conversion, const TrustedText& spec) {
    const Value value = conversion != '\0' ? Value::text(converted(budget_, held, conversion)) : held;
    const TrustedText* text = value.as_text();
    if (format_.is_markup() && text != nullptr && text->is_markup() && !spec.empty())
      fail_runtime("markup is formatted without a specification");
    return put_into(budget_, spec.empty() ? to_text(budget_, value) : formatted(budget_, value, parse_format_spec(spec)),
                    format_.is_markup());
  }

  /// name, name.attribute, name[key] ...
  Value lookup(std::string_view path) {
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, at));
    while (at < path.size()) {
      const bool by_key = path[at] == '[';
      const std::size_t begin = at + 1;
      at = std::min(by_key ? path.find(']', begin) : path.find_first_of(".[", begin), path.size());
      const std::string_view name = path.substr(begin, at - begin);
      if (by_key && at++ == path.size()) fail_runtime("a format has a '[' without its end");
      if (name.empty() || (by_key && at < path.size() && path[at] != '.' && path[at] != '[')) fail_runtime("a format has an empty name");
      const auto index = by_key ? index_of(name) : std::nullopt;
      if (!index) require_public_key(name);
      value = index    ? subscript(budget_, value, Value::integer(*index))
              : by_key ? subscript(budget_, value, Value::text(std::string{name}))
                       : attribute(budget_, value, name);
    }
    return value;
  }

  Value argument(std::string_view name) {
    const auto index = name.empty() ? std::optional{next_} : index_of(name);
    if (!index) {
      budget_.charge(search_steps(arguments_.named.size(), name));
      for (const auto& [given, value] : arguments_.named) {
        if (given == name) return value;
      }
      fail_runtime("a format names '" + std::string{name} + "', which is not given");
    }
    if ((name.empty() ? numbered_ : next_ > 0)) fail_runtime("a format mixes numbered fields with others");
    name.empty() ? ++next_ : (numbered_ = true, next_);
    if (*index >= static_cast<std::int64_t>(arguments_.positional.size())) {
      fail_runtime("a format needs argument " + std::to_string(*index) + " of " + std::to_string(arguments_.positional.size()));
    }
    return arguments_.positional[static_cast<std::size_t>(*index)];
  }

  Budget& budget_;
  const TrustedText& format_;
  const Arguments& arguments_;
  std::int64_t next_ = 0;
  bool numbered_ = false;
};

}  // namespace

TrustedText put_into(Budget& budget, const TrustedText& text, bool markup) {
  return markup && !text.is_markup() ? escaped(budget, text) : text;
}

TrustedText converted(Budget& budget, const Value& value, char conversion) {
  if (conversion == 's') return to_text(budget, value);
  if (conversion == 'r') return to_repr(budget, value);
  if (conversion == 'a') return to_ascii(budget, value);
  fail_runtime(std::string{"the conversion '!"} + conversion + "' is unknown");
}

Value brace_format(Budget& budget, const TrustedText& format, const Arguments& arguments) {
  return Value::text(BraceFormat{budget, format, arguments}.run().set_markup(format.is_markup()));
}

}  // namespace kvpage::engine::chat
