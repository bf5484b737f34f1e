/// \file toy_text: what a request says when it runs alone with unlimited memory and no blocks at all.
#pragma once

#include "tools/simulator/toy_model.hpp"

#include <algorithm>
#include <vector>

KVPAGE_BEGIN_NAMESPACE

/// The toy's logits behind a growing list of tokens, without any cache.
class ToyContext {
 public:
  ToyContext(const BlockAllocatorConfig& config, NamespaceId name_space) : config_(&config), name_space_(name_space) {
  }
  void append(TokenId token) {
    slots_.push_back(toy::slot_of(token, static_cast<std::int64_t>(slots_.size()), name_space_));
    if (config_->window(0) == 0) full_ = toy::fold(full_, slots_.back());
  }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return static_cast<std::int64_t>(slots_.size()); }
  /// The hash of everything that the newest token sees, over all groups.
  [[nodiscard]] std::uint64_t logits() const {
    std::uint64_t seen = config_->window(0) == 0 ? full_ : toy::kNothingSeen;
    for (std::int64_t g = config_->window(0) == 0 ? 1 : 0; g < config_->num_groups; ++g) {
      const std::size_t window = config_->window(g) == 0 ? slots_.size() : static_cast<std::size_t>(config_->window(g));
      for (std::size_t p = slots_.size() - std::min(slots_.size(), window); p < slots_.size(); ++p) seen = toy::fold(seen, slots_[p]);
    }
    return seen;
  }

 private:
  const BlockAllocatorConfig* config_;
  NamespaceId name_space_;
  std::vector<std::uint64_t> slots_;
  std::uint64_t full_ = toy::kNothingSeen;  // group 0 sees a prefix of what it saw before: its hash goes on
};

/// The text of one answer, up to max_new_tokens or its first stop token (included). Logits of its samples go to `logits` if given.
[[nodiscard]] inline std::vector<TokenId> toy_text(const BlockAllocatorConfig& config, const RequestSpec& spec, std::uint32_t child,
                                                   TokenId vocab_size, std::vector<std::uint64_t>* logits = nullptr) {
  ToyContext context{config, spec.name_space};
  for (const TokenId token : spec.prompt) context.append(token);
  std::vector<TokenId> text;
  while (static_cast<std::int64_t>(text.size()) < spec.max_new_tokens) {
    const auto position = static_cast<std::int64_t>(spec.prompt.size() + text.size());
    const std::uint64_t seen = context.logits();
    if (logits != nullptr) logits->push_back(seen);
    text.push_back(toy::draw(seen, {.child = child, .position = position, .seed = spec.seed.value_or(0)}, vocab_size));
    if (std::find(spec.stop_tokens.begin(), spec.stop_tokens.end(), text.back()) != spec.stop_tokens.end()) break;
    context.append(text.back());
  }
  return text;
}

KVPAGE_END_NAMESPACE
