/// \file SpecialMatcher: building and walking the trie.
#include "engine/tokenizer/special_matcher.hpp"

#include <algorithm>

namespace kvpage::engine {

SpecialMatcher::SpecialMatcher(const Vocab& vocab) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < vocab.size(); ++id) {
    const TokenType type = vocab.type(id);
    const bool special = type == TokenType::kUserDefined || type == TokenType::kControl || type == TokenType::kUnknown;
    if (!special || vocab.bytes(id).empty()) continue;
    ids.push_back(id);
    const auto first = static_cast<unsigned char>(vocab.bytes(id)[0]);
    starts_any_[first] = true;
    if (type == TokenType::kUserDefined) starts_user_defined_[first] = true;
  }
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return vocab.bytes(a) < vocab.bytes(b); });

  struct Prefix {
    std::size_t begin, end;  // the ids that have it
  };
  std::vector<Prefix> prefixes{{0, ids.size()}};
  nodes_.resize(1);
  std::size_t level_end = 1;
  std::size_t depth = 0;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (node == level_end) {
      ++depth;
      level_end = nodes_.size();
    }
    auto [begin, end] = prefixes[node];
    for (; begin < end && vocab.bytes(ids[begin]).size() == depth; ++begin) {
      if (nodes_[node].id != kNoToken) continue;  // of tokens with the same text the first
      nodes_[node].id = ids[begin];
      nodes_[node].control = vocab.type(ids[begin]) != TokenType::kUserDefined;
    }
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = vocab.bytes(ids[begin])[depth];
      std::size_t same = begin;
      while (same < end && vocab.bytes(ids[same])[depth] == byte) ++same;
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

SpecialMatch SpecialMatcher::match_at(std::string_view text, std::size_t begin, std::size_t control_end) const noexcept {
  SpecialMatch longest{.begin = begin};
  const Node* node = nodes_.data();
  for (std::size_t i = begin; i < text.size(); ++i) {
    node = child(*node, static_cast<unsigned char>(text[i]));
    if (node == nullptr) break;
    if (node->id != kNoToken && (!node->control || i < control_end)) longest = {begin, i + 1 - begin, node->id};
  }
  return longest;
}

SpecialMatch SpecialMatcher::find(std::string_view text, std::size_t from, std::span<const TrustedSpan> trusted) const noexcept {
  const auto& starts = trusted.empty() ? starts_user_defined_ : starts_any_;
  auto span = std::partition_point(trusted.begin(), trusted.end(), [&](const TrustedSpan& s) { return s.end <= from; });
  for (std::size_t i = from; i < text.size() && !nodes_.empty(); ++i) {
    if (!starts[static_cast<unsigned char>(text[i])]) continue;
    while (span != trusted.end() && span->end <= i) ++span;
    const std::size_t control_end = span != trusted.end() && span->begin <= i ? span->end : 0;
    if (const SpecialMatch match = match_at(text, i, control_end); match.length > 0) return match;
  }
  return {.begin = text.size()};
}

}  // namespace kvpage::engine
