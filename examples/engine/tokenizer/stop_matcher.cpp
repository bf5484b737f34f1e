/// \file StopMatcher: an automaton over the prefixes of the stops.
#include "engine/tokenizer/stop_matcher.hpp"

#include <kvpage/base/error.hpp>

namespace kvpage::engine {

StopMatcher::StopMatcher(std::span<const std::string> stops) : nodes_(1) {
  for (const std::string& stop : stops) {
    const auto index = static_cast<std::int32_t>(lengths_.size());
    if (stop.empty()) throw_config_error("a stop string must have at least one byte; this one is empty", index, 1, "bytes");
    insert(stop, index);
    lengths_.push_back(stop.size());
  }
  link();
}

std::int32_t StopMatcher::child(std::int32_t node, char byte) const noexcept {
  std::int32_t found = nodes_[static_cast<std::size_t>(node)].first_child;
  while (found >= 0 && nodes_[static_cast<std::size_t>(found)].byte != byte) found = nodes_[static_cast<std::size_t>(found)].next_sibling;
  return found;
}

std::int32_t StopMatcher::next(std::int32_t node, char byte) const noexcept {
  for (;;) {
    if (const std::int32_t found = child(node, byte); found >= 0) return found;
    if (node == 0) return 0;
    node = nodes_[static_cast<std::size_t>(node)].fail;
  }
}

void StopMatcher::insert(std::string_view stop, std::int32_t index) {
  std::int32_t node = 0;
  for (const char byte : stop) {
    std::int32_t found = child(node, byte);
    if (found < 0) {
      found = static_cast<std::int32_t>(nodes_.size());
      Node& parent = nodes_[static_cast<std::size_t>(node)];
      const Node added{.next_sibling = parent.first_child, .depth = parent.depth + 1, .byte = byte};
      parent.first_child = found;
      nodes_.push_back(added);
    }
    node = found;
  }
  std::int32_t& ending = nodes_[static_cast<std::size_t>(node)].stop;
  if (ending < 0) ending = index;
}

void StopMatcher::link() {
  std::vector<std::int32_t> queue{0};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::int32_t parent = queue[i];
    for (std::int32_t node = nodes_[static_cast<std::size_t>(parent)].first_child; node >= 0;
         node = nodes_[static_cast<std::size_t>(node)].next_sibling) {
      Node& linked = nodes_[static_cast<std::size_t>(node)];
      if (parent != 0) linked.fail = next(nodes_[static_cast<std::size_t>(parent)].fail, linked.byte);
      if (linked.stop < 0) linked.stop = nodes_[static_cast<std::size_t>(linked.fail)].stop;
      queue.push_back(node);
    }
  }
}

std::string_view StopMatcher::push(std::string_view piece) {
  shown_.clear();
  if (stopped()) return shown_;
  held_.append(piece);
  for (std::size_t i = held_.size() - piece.size(); i < held_.size(); ++i) {
    state_ = next(state_, held_[i]);
    stop_ = nodes_[static_cast<std::size_t>(state_)].stop;
    if (!stopped()) continue;
    shown_.assign(held_, 0, i + 1 - lengths_[static_cast<std::size_t>(stop_)]);
    held_.clear();
    return shown_;
  }
  const std::size_t certain = held_.size() - nodes_[static_cast<std::size_t>(state_)].depth;
  shown_.assign(held_, 0, certain);
  held_.erase(0, certain);
  return shown_;
}

std::string_view StopMatcher::finish() {
  shown_ = held_;
  held_.clear();
  state_ = 0;
  return shown_;
}

}  // namespace kvpage::engine
