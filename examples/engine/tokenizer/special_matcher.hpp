/// \file SpecialMatcher: finds the text of special tokens inside a text.
#pragma once

#include "engine/tokenizer/tokenizer_data.hpp"
#include "engine/tokenizer/vocab.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// A part of a text, in bytes: [begin, end).
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A special token that stands at `begin` of a text.
struct SpecialMatch {
  std::size_t begin = 0;
  std::size_t length = 0;  ///< 0: there is none, and `begin` is the end of the text
  TokenId id = kNoToken;
};

/// A trie of the control, unknown and user-defined tokens. Of overlapping ones the leftmost counts, of those the longest.
class SpecialMatcher {
 public:
  SpecialMatcher() = default;
  explicit SpecialMatcher(const Vocab& vocab);

  /// The first user-defined token in text[from, end); with `controls`, also control and unknown tokens, as far as they do
  /// not touch a range of `literal`.
  /// Requires: `literal` is sorted and disjoint.
  /// Cost: O(end - from), times the length of the longest special token in the worst case.
  SpecialMatch find(std::string_view text, std::size_t from, bool controls, std::span<const TextRange> literal) const noexcept;

 private:
  /// A prefix of a special token; its children are nodes_[first_child, first_child + num_children), by rising byte.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint32_t num_children = 0;
    TokenId id = kNoToken;
    unsigned char byte = 0;
    bool control = false;
  };

  /// The longest token at `begin`; control tokens must end by `control_end`.
  SpecialMatch match_at(std::string_view text, std::size_t begin, std::size_t control_end) const noexcept;
  const Node* child(const Node& node, unsigned char byte) const noexcept;

  std::vector<Node> nodes_;
  std::array<bool, 256> starts_user_defined_{};
  std::array<bool, 256> starts_any_{};
};

}  // namespace kvpage::engine
