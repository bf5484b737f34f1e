/// \file argmax_of_logits: how models of tests answer argmax, from logits that they make or change.
#pragma once

#include "engine/model/language_model.hpp"

#include <vector>

namespace kvpage_test {

/// `model.argmax(first, count)` by its logits, kept in `argmaxes`.
inline kvpage::Expected<std::span<const kvpage::RowArgmax>, kvpage::Status> argmax_of_logits(kvpage::engine::LanguageModel& model,
                                                                                             std::int64_t first, std::int64_t count,
                                                                                             std::vector<kvpage::RowArgmax>& argmaxes) {
  const auto rows = model.logits(first, count);
  if (!rows) return kvpage::Unexpected{rows.error()};
  argmaxes.clear();
  const std::int64_t width = model.spec().vocab_size;
  for (std::int64_t i = 0; i < count; ++i) argmaxes.push_back(kvpage::row_argmax(rows->data() + i * width, width));
  return std::span<const kvpage::RowArgmax>(argmaxes);
}

}  // namespace kvpage_test
