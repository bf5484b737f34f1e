/// \file Cutting and joining of TrustedText.
#include "engine/chat/trusted_text.hpp"

#include "engine/chat/limits.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>

namespace kvpage::engine::chat {

TrustedText TrustedText::untrusted(std::string bytes) {
  TrustedText text;
  text.bytes_ = std::move(bytes);
  return text;
}

TrustedText TrustedText::trusted(std::string bytes) {
  TrustedText text = untrusted(std::move(bytes));
  if (!text.empty()) text.spans_.push_back({0, text.size()});
  return text;
}

void TrustedText::require_room(std::size_t extra) const {
  if (size() + extra > kMaxOutputBytes) {
    fail(TemplateErrorKind::kLimit, "makes a text of more than " + std::to_string(kMaxOutputBytes) + " bytes; shorten the conversation");
  }
}

void TrustedText::append_untrusted(std::string_view bytes) {
  require_room(bytes.size());
  bytes_.append(bytes);
}

void TrustedText::append_slice(const TrustedText& other, std::size_t begin, std::size_t end) {
  if (begin == end) return;  // an empty cut inside of a span has no trust to bring
  require_room(end - begin);
  const std::size_t base = size();
  bytes_.append(other.bytes_, begin, end - begin);
  auto span = std::upper_bound(other.spans_.begin(), other.spans_.end(), begin,
                               [](std::size_t at, const TrustedSpan& s) { return at < s.end; });
  for (; span != other.spans_.end() && span->begin < end; ++span) {
    const TrustedSpan moved{std::max(span->begin, begin) - begin + base, std::min(span->end, end) - begin + base};
    if (!spans_.empty() && spans_.back().end == moved.begin) {
      spans_.back().end = moved.end;
    } else {
      spans_.push_back(moved);
    }
  }
}

void TrustedText::append_instead(const TrustedText& other, std::size_t at, std::string_view bytes) {
  const auto span = std::upper_bound(other.spans_.begin(), other.spans_.end(), at,
                                     [](std::size_t byte, const TrustedSpan& s) { return byte < s.end; });
  const bool is_trusted = span != other.spans_.end() && span->begin <= at;
  is_trusted ? append(trusted(std::string{bytes})) : append_untrusted(bytes);
}

TrustedText TrustedText::slice(std::size_t begin, std::size_t end) const {
  TrustedText part;
  part.append_slice(*this, begin, end);
  return part;
}

}  // namespace kvpage::engine::chat
