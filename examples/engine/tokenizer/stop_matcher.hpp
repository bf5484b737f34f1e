/// \file StopMatcher: finds the first stop string in text that arrives in pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Lets text through until a stop string is complete. Only a suffix that is a proper prefix of a stop is held back.
/// Of several stops the one that is complete first wins; of two that end at the same byte, the longer one.
/// Errors: the constructor throws ConfigError for an empty stop string.
/// Cost: push is linear in the piece, whatever the stops are.
/// Source: Aho and Corasick 1975, "Efficient string matching".
class StopMatcher {
 public:
  explicit StopMatcher(std::span<const std::string> stops);

  /// The text that may be shown now; nothing once stopped. The view is valid until the next call.
  std::string_view push(std::string_view piece);

  /// The end of the text: what was held back and is no stop. The view is valid until the next call.
  std::string_view finish();

  bool stopped() const noexcept { return stop_ >= 0; }
  /// Index into the stops of the constructor, or -1.
  std::int32_t stop_index() const noexcept { return stop_; }
  std::size_t held_bytes() const noexcept { return held_.size(); }

 private:
  /// A prefix of a stop. Children are a list: there are rarely more than a handful of stops.
  struct Node {
    std::int32_t first_child = -1;
    std::int32_t next_sibling = -1;
    std::int32_t fail = 0;   ///< the longest proper suffix of this prefix that is a prefix too
    std::int32_t stop = -1;  ///< the longest stop that ends here
    std::uint32_t depth = 0;
    char byte = 0;
  };

  std::int32_t child(std::int32_t node, char byte) const noexcept;
  std::int32_t next(std::int32_t node, char byte) const noexcept;
  void insert(std::string_view stop, std::int32_t index);
  void link();

  std::vector<Node> nodes_;
  std::vector<std::size_t> lengths_;  ///< of the stops
  std::string held_;
  std::string shown_;
  std::int32_t state_ = 0;
  std::int32_t stop_ = -1;
};

}  // namespace kvpage::engine
