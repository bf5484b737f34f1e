/// \file EvictionChoice: any of the shipped eviction policies, chosen by name when the program runs.
#pragma once

#include <kvpage/base/types.hpp>
#include <kvpage/cache/eviction_arc.hpp>
#include <kvpage/cache/eviction_cost_aware.hpp>
#include <kvpage/cache/eviction_lru.hpp>
#include <kvpage/cache/eviction_priority_ttl.hpp>
#include <kvpage/cache/eviction_segmented_lru.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvpage::engine {

/// An EvictionPolicy that hands every call on. Cost: that of the chosen policy, and one indirect branch per call.
class EvictionChoice {
 public:
  /// The names, in the order of `Policy`; the first one is the default.
  static constexpr std::array<std::string_view, 5> kNames{"lru", "slru", "arc", "priority-ttl", "cost-aware"};
  static constexpr bool kNeedsLeaves = true;  // some of them do

  EvictionChoice() = default;
  static std::vector<std::string> names() { return {kNames.begin(), kNames.end()}; }
  /// Empty for an unknown name.
  static std::optional<EvictionChoice> by_name(std::string_view name) {
    std::optional<EvictionChoice> choice;
    select(name, choice, std::make_index_sequence<kNames.size()>{});
    return choice;
  }
  [[nodiscard]] std::string_view name() const noexcept { return kNames[policy_.index()]; }

  void attach(std::span<detail::BlockRecord> records, std::int64_t num_blocks, detail::Arena& arena) {
    std::visit([&](auto& p) { p.attach(records, num_blocks, arena); }, policy_);
  }
  void on_published(std::uint32_t b, const CachedBlockInfo& info) {
    std::visit([&](auto& p) { p.on_published(b, info); }, policy_);
  }
  std::uint64_t on_cached(std::uint32_t b, const CachedBlockInfo& info) {
    return std::visit([&](auto& p) { return p.on_cached(b, info); }, policy_);
  }
  std::uint64_t take(std::uint32_t b) {
    return std::visit([&](auto& p) { return p.take(b); }, policy_);
  }
  std::uint64_t on_leaf(std::uint32_t b) {
    return std::visit([&](auto& p) { return p.on_leaf(b); }, policy_);
  }
  void undo_cached(std::uint32_t b, std::uint64_t cookie) {
    std::visit([&](auto& p) { p.undo_cached(b, cookie); }, policy_);
  }
  void untake(std::uint32_t b, std::uint64_t cookie) {
    std::visit([&](auto& p) { p.untake(b, cookie); }, policy_);
  }
  void undo_leaf(std::uint32_t b, std::uint64_t cookie) {
    std::visit([&](auto& p) { p.undo_leaf(b, cookie); }, policy_);
  }
  void on_evicted(std::uint32_t b) {
    std::visit([&](auto& p) { p.on_evicted(b); }, policy_);
  }
  void expire(std::int64_t now_ns) {
    std::visit([&](auto& p) { p.expire(now_ns); }, policy_);
  }
  [[nodiscard]] std::uint32_t victim() const {
    return std::visit([](const auto& p) { return p.victim(); }, policy_);
  }
  [[nodiscard]] std::int64_t size() const {
    return std::visit([](const auto& p) { return static_cast<std::int64_t>(p.size()); }, policy_);
  }
  [[nodiscard]] std::uint64_t digest() const {
    return std::visit([](const auto& p) { return p.digest(); }, policy_);
  }
  void check() const {
    std::visit([](const auto& p) { p.check(); }, policy_);
  }

 private:
  using Policy = std::variant<Lru, SegmentedLru, Arc, PriorityTtl, CostAware>;
  static_assert(std::variant_size_v<Policy> == kNames.size());

  template <std::size_t... kIndex>
  static void select(std::string_view name, std::optional<EvictionChoice>& choice, std::index_sequence<kIndex...>) {
    (static_cast<void>(kNames[kIndex] == name ? choice.emplace().policy_.emplace<kIndex>(), 0 : 0), ...);
  }

  Policy policy_;
};
static_assert(EvictionPolicy<EvictionChoice>);

}  // namespace kvpage::engine
