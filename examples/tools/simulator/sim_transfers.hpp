/// \file SimTransfers: carries out the transfers of sealed steps, and lets them fail.
#pragma once

#include "tools/simulator/sim_world.hpp"

KVPAGE_BEGIN_NAMESPACE

/// In the order that a plan asks for: demotions, then whatever overwrites them, then promotions.
class SimTransfers {
 public:
  explicit SimTransfers(SimWorld& world) : world_(world) {}

  /// What came of the promotions that were carried out.
  [[nodiscard]] std::span<const PromotionOutcome> outcomes() const noexcept { return outcomes_; }

  /// Nothing is carried out: the step is lost before it ran. Blocks with a new owner count as overwritten all the same.
  void skip() {
    outcomes_.clear();
    overwrite();
  }

  /// All demotions, and the first promotions.
  void run(const BatchPlan& batch, const SimAction& action, std::size_t num_promotions) {
    outcomes_.clear();
    for (std::size_t i = 0; i < batch.demotions.size(); ++i) demote(batch.demotions[i], fails(action, i, batch.demotions.size()));
    overwrite();
    const bool meets = disturb(batch, action);
    for (std::size_t i = 0; i < num_promotions; ++i) promote(batch.promotions[i], action, fails(action, i, batch.promotions.size()));
    if (meets) world_.count_all(action.kind);
  }

 private:
  void overwrite() {
    for (const BlockId block : world_.taken) world_.model.poison(block);
    world_.taken.clear();
  }

  /// True when the action's fault meets a transfer of this step.
  bool disturb(const BatchPlan& batch, const SimAction& action) {
    const std::size_t count = batch.promotions.size();
    if (count + batch.demotions.size() == 0) return false;
    if (action.kind == SimKind::kTransferLate) world_.env.time_ns += static_cast<std::int64_t>(action.b % 100) * 10'000'000;
    if (action.kind == SimKind::kTransferCorrupt) {
      const std::uint32_t slot = count > 0 ? batch.promotions[action.b % count].tier_slot : batch.demotions.back().tier_slot;
      world_.tier->damage(slot, action.b / 64);
    }
    return action.kind >= SimKind::kTransferFailed && action.kind <= SimKind::kTransferCorrupt;
  }
  [[nodiscard]] static bool fails(const SimAction& action, std::size_t i, std::size_t count) noexcept {
    return action.kind == SimKind::kTransferFailed && (action.b % 4 == 0 || action.b / 4 % count == i);
  }

  void demote(const BlockDemotion& demotion, bool fails) {
    auto& tier = world_.tier->tier;
    world_.tier->broken = fails;
    const bool stored = tier.demote(demotion.tier_slot, world_.model.page(demotion.block)).has_value();
    world_.tier->broken = false;
    world_.book.check(stored != fails, "a page is stored unless its store fails");
  }

  void promote(const BlockPromotion& promotion, const SimAction& action, bool fails) {
    auto& tier = world_.tier->tier;
    if (fails && action.a / 16 % 2 == 0) {  // given up, although the page is there
      world_.book.check(tier.release(promotion.tier_slot).has_value(), "a promotion holds its slot");
      outcomes_.push_back(PromotionOutcome::kFailed);
      return;
    }
    world_.tier->broken = fails;
    const bool loaded = tier.promote(promotion.tier_slot, world_.model.page(promotion.block)).has_value();
    world_.tier->broken = false;
    outcomes_.push_back(loaded ? PromotionOutcome::kArrived : PromotionOutcome::kFailed);
  }

  SimWorld& world_;
  std::vector<PromotionOutcome> outcomes_;
};

KVPAGE_END_NAMESPACE
