/// \file SpecialMatcher: building and walking the trie.
#include "engine/tokenizer/special_matcher.hpp"

#include <algorithm>
#include <deque>
#include <string>

namespace kvpage::engine {
namespace {

/// A token to be found, and its text.
struct Special {
  std::string_view text;
  TokenId id = kNoToken;
};

/// `text` with spaces in place of U+2581; what has to be written is kept in `owned`.
std::string_view unescape_spaces(std::string_view text, std::deque<std::string>& owned) {
  std::size_t at = text.find(kEscapedSpace);
  if (at == std::string_view::npos) return text;
  std::string& written = owned.emplace_back(text);
  for (; at != std::string::npos; at = written.find(kEscapedSpace, at)) written.replace(at, kEscapedSpace.size(), " ");
  return written;
}

}  // namespace

SpecialMatcher::SpecialMatcher(const Vocab& vocab, bool escaped_spaces) : escaped_spaces_(escaped_spaces) {
  std::vector<Special> specials;
  std::deque<std::string> owned;
  for (TokenId id = 0; id < vocab.size(); ++id) {
    const TokenType type = vocab.type(id);
    const bool special = type == TokenType::kUserDefined || type == TokenType::kControl || type == TokenType::kUnknown;
    if (!special || vocab.bytes(id).empty()) continue;
    const std::string_view text = escaped_spaces ? unescape_spaces(vocab.bytes(id), owned) : vocab.bytes(id);
    specials.push_back({text, id});
    const auto mark_start = [&](char byte) {
      starts_any_[static_cast<unsigned char>(byte)] = true;
      if (type == TokenType::kUserDefined) starts_user_defined_[static_cast<unsigned char>(byte)] = true;
    };
    mark_start(text[0]);
    if (escaped_spaces && text[0] == ' ') mark_start(kEscapedSpace[0]);
  }
  std::stable_sort(specials.begin(), specials.end(), [](const Special& a, const Special& b) { return a.text < b.text; });

  struct Prefix {
    std::size_t begin, end;  // the tokens that have it
  };
  std::vector<Prefix> prefixes{{0, specials.size()}};
  nodes_.resize(1);
  std::size_t level_end = 1;
  std::size_t depth = 0;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (node == level_end) {
      ++depth;
      level_end = nodes_.size();
    }
    auto [begin, end] = prefixes[node];
    for (; begin < end && specials[begin].text.size() == depth; ++begin) {
      if (nodes_[node].id != kNoToken) continue;  // of tokens with the same text the first
      nodes_[node].id = specials[begin].id;
      nodes_[node].control = vocab.type(specials[begin].id) != TokenType::kUserDefined;
    }
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = specials[begin].text[depth];
      std::size_t same = begin;
      while (same < end && specials[same].text[depth] == byte) ++same;
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      prefixes.push_back({begin, same});
      begin = same;
    }
    nodes_[node].num_children = static_cast<std::uint32_t>(nodes_.size()) - nodes_[node].first_child;
  }
}

const SpecialMatcher::Node* SpecialMatcher::child(const Node& node, unsigned char byte) const noexcept {
  const auto first = nodes_.begin() + node.first_child;
  const auto last = first + node.num_children;
  const auto found = std::lower_bound(first, last, byte, [](const Node& n, unsigned char b) { return n.byte < b; });
  return found != last && found->byte == byte ? &*found : nullptr;
}

SpecialMatch SpecialMatcher::match_from(const Node* node, std::string_view text, std::size_t begin,
                                        std::size_t control_end) const noexcept {
  SpecialMatch longest{.begin = begin};
  for (std::size_t end = begin;;) {
    if (node->id != kNoToken && (!node->control || end <= control_end)) longest = {begin, end - begin, node->id};
    if (end == text.size() || node->num_children == 0) break;
    const char byte = text[end];
    const bool space = escaped_spaces_ && byte == kEscapedSpace[0] && text.substr(end).starts_with(kEscapedSpace);
    node = child(*node, static_cast<unsigned char>(space ? ' ' : byte));
    if (node == nullptr) break;
    end += space ? kEscapedSpace.size() : 1;
  }
  return longest;
}

SpecialMatch SpecialMatcher::find_behind_space(std::string_view text, std::size_t from) const noexcept {
  const Node* const space = nodes_.empty() ? nullptr : child(nodes_[0], ' ');
  return space == nullptr ? SpecialMatch{.begin = text.size()} : match_from(space, text, from, 0);
}

SpecialMatch SpecialMatcher::find(std::string_view text, std::size_t from, std::span<const TrustedSpan> trusted) const noexcept {
  const auto& starts = trusted.empty() ? starts_user_defined_ : starts_any_;
  auto span = std::partition_point(trusted.begin(), trusted.end(), [&](const TrustedSpan& s) { return s.end <= from; });
  for (std::size_t i = from; i < text.size() && !nodes_.empty(); ++i) {
    if (!starts[static_cast<unsigned char>(text[i])]) continue;
    while (span != trusted.end() && span->end <= i) ++span;
    const std::size_t control_end = span != trusted.end() && span->begin <= i ? span->end : 0;
    if (const SpecialMatch match = match_from(nodes_.data(), text, i, control_end); match.id != kNoToken) return match;
  }
  return {.begin = text.size()};
}

}  // namespace kvpage::engine
