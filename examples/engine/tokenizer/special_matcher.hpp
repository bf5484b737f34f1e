/// \file SpecialMatcher: finds the text of special tokens inside a text.
#pragma once

#include "engine/chat/value.hpp"
#include "engine/tokenizer/tokenizer_data.hpp"
#include "engine/tokenizer/vocab.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// A special token that stands at `begin` of a text.
struct SpecialMatch {
  std::size_t begin = 0;
  std::size_t length = 0;
  TokenId id = kNoToken;  ///< kNoToken: there is none, and `begin` is the end of the text
};

/// A trie of the control, unknown and user-defined tokens. Of overlapping ones the leftmost counts, of those the longest.
/// With `escaped_spaces` U+2581 is a space in texts and tokens, as it is to SPM.
class SpecialMatcher {
 public:
  SpecialMatcher() = default;
  SpecialMatcher(const Vocab& vocab, bool escaped_spaces);

  /// The first token in text[from, end): user-defined ones anywhere, others only inside one span of `trusted`.
  /// Requires: `trusted` is sorted and disjoint.
  /// Cost: O(end - from), times the length of the longest special token in the worst case.
  SpecialMatch find(std::string_view text, std::size_t from, std::span<const TrustedSpan> trusted) const noexcept;

  /// The user-defined token that begins with a space in front of text[from], which the text does not have; its length
  /// counts what follows that space.
  SpecialMatch find_behind_space(std::string_view text, std::size_t from) const noexcept;

  /// What the trie takes in the heap.
  std::size_t memory_bytes() const noexcept { return nodes_.capacity() * sizeof(Node); }

 private:
  /// A prefix of a special token; its children are nodes_[first_child, first_child + num_children), by rising byte.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint32_t num_children = 0;
    TokenId id = kNoToken;
    unsigned char byte = 0;
    bool control = false;
  };

  /// The longest token at `begin` of which `node` is the part before; control tokens must end by `control_end`.
  SpecialMatch match_from(const Node* node, std::string_view text, std::size_t begin, std::size_t control_end) const noexcept;
  const Node* child(const Node& node, unsigned char byte) const noexcept;

  std::vector<Node> nodes_;
  std::array<bool, 256> starts_user_defined_{};
  std::array<bool, 256> starts_any_{};
  bool escaped_spaces_ = false;
};

}  // namespace kvpage::engine
