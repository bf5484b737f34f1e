/// \file Python's str and repr of template values.
#include "engine/chat/format_value.hpp"

#include "engine/chat/unicode_text.hpp"
#include "engine/chat/utf8.hpp"

#include <charconv>
#include <cmath>

namespace kvpage::engine::chat {
namespace {

void append_hex(std::string& out, char kind, char32_t value, int digits) {
  out.push_back('\\'), out.push_back(kind);
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out.push_back("0123456789abcdef"[value >> shift & 0xF]);
}

std::string quoted(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text, at);
    at += c.bytes;
    if (c.value == static_cast<unsigned char>(quote) || c.value == '\\') {
      out.push_back('\\'), out.push_back(static_cast<char>(c.value));
    } else if (c.value == '\n' || c.value == '\r' || c.value == '\t') {
      out += c.value == '\n' ? "\\n" : c.value == '\r' ? "\\r" : "\\t";
    } else if ((c.value & kInvalidByte) != 0 || has_property(c.value, kIsPrintable)) {
      encode_to(out, c.value);
    } else if (c.value < 0x100) {
      append_hex(out, 'x', c.value, 2);
    } else {
      append_hex(out, c.value < 0x10000 ? 'u' : 'U', c.value, c.value < 0x10000 ? 4 : 8);
    }
  }
  out.push_back(quote);
  return out;
}

/// Writes the repr of nested values; depth is bounded by the values themselves.
class ReprWriter {
 public:
  explicit ReprWriter(Budget& budget) : budget_(budget) {}

  void write(const Value& value) {
    budget_.charge(1);
    if (const TrustedText* text = value.as_text()) {
      budget_.charge_bytes(text->size());
      const std::string repr = quoted(text->bytes());
      out_.append_untrusted(text->is_markup() ? "Markup(" + repr + ")" : repr);
    } else if (const List* list = value.as_list()) {
      write_list(*list, value);
    } else if (const Dict* dict = value.as_dict()) {
      write_dict(*dict);
    } else if (value.is_undefined()) {
      out_.append_untrusted("Undefined");
    } else {
      out_.append_untrusted(to_text(budget_, value).bytes());
    }
  }

  TrustedText take() { return std::move(out_); }

 private:
  void write_list(const List& list, const Value& value) {
    const bool is_tuple = list.form == ListForm::kTuple;
    if (!is_tuple && list.form != ListForm::kList)
      fail_runtime("a " + std::string{value.type_name()} + " cannot be written; add |list before");
    out_.append_untrusted(is_tuple ? "(" : "[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append_untrusted(", ");
      write(list.items[i]);
    }
    out_.append_untrusted(is_tuple ? (list.items.size() == 1 ? ",)" : ")") : "]");
  }

  void write_dict(const Dict& dict) {
    out_.append_untrusted("{");
    bool first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!std::exchange(first, false)) out_.append_untrusted(", ");
      write(entry.key);
      out_.append_untrusted(": ");
      write(entry.value);
    }
    out_.append_untrusted("}");
  }

  Budget& budget_;
  TrustedText out_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text{buffer, static_cast<std::size_t>(written.ptr - buffer)};
  const std::size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(buffer + mark + (text[mark + 1] == '+' ? 2 : 1), written.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string{text};
  std::string fixed(400, '\0');
  const auto end = std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed);
  fixed.resize(static_cast<std::size_t>(end.ptr - fixed.data()));
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

TrustedText to_text(Budget& budget, const Value& value) {
  if (const TrustedText* text = value.as_text()) {
    budget.charge_bytes(text->size());
    return *text;
  }
  if (value.is_undefined()) return TrustedText{};
  if (value.is_none()) return TrustedText::untrusted("None");
  if (const bool* held = value.as_bool()) return TrustedText::untrusted(*held ? "True" : "False");
  if (const std::int64_t* held = value.as_integer()) return TrustedText::untrusted(std::to_string(*held));
  if (const BigInteger* held = value.as_big()) {
    budget.charge(1 + held->limbs() * held->limbs() / 16);
    return TrustedText::untrusted(held->text());
  }
  if (const double* held = value.as_number()) return TrustedText::untrusted(float_text(*held));
  if (const Function* function = value.as_function(); function != nullptr && function->is_method) {
    fail(TemplateErrorKind::kUnsupported, "'." + std::string{function->name} + "' is a method; call it, or write ['" +
                                              std::string{function->name} + "'] for the key");
  }
  if (value.as_list() == nullptr && value.as_dict() == nullptr) fail_runtime("a " + std::string{value.type_name()} + " cannot be written");
  return to_repr(budget, value);
}

TrustedText to_repr(Budget& budget, const Value& value) {
  ReprWriter writer{budget};
  writer.write(value);
  return writer.take();
}

TrustedText to_ascii(Budget& budget, const Value& value) {
  const TrustedText repr = to_repr(budget, value);
  std::string out;
  for (std::size_t at = 0; at < repr.size();) {
    const CodePoint c = decode_at(repr.bytes(), at);
    at += c.bytes;
    if (c.value < 0x80) {
      out.push_back(static_cast<char>(c.value));
    } else {
      append_hex(out, c.value < 0x100 ? 'x' : c.value < 0x10000 ? 'u' : 'U', c.value, c.value < 0x100 ? 2 : c.value < 0x10000 ? 4 : 8);
    }
  }
  return TrustedText::untrusted(std::move(out));
}

}  // namespace kvpage::engine::chat
