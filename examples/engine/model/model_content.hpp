/// \file ModelContent: whether a model file still holds the bytes that it held before.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/loader/hash128.hpp"
#include "engine/model/load_work.hpp"

#include <optional>

namespace kvpage::engine {

/// The bytes of all files of a model. Requires: the model and `work` outlive it, and the model's data is not dropped.
class ModelContent {
 public:
  ModelContent(const Gguf& file, const LoadWork& work) : file_(file), work_(work) {}

  /// Of every byte; none if the files cannot be read. Cost: the first call reads all of it, in parallel; later ones are free.
  const Hash128& hash();

  /// What tells without reading whether the content is the same: two equal stamps mean equal bytes. "None" if the files were written a
  /// moment before they were opened, so that another write could go unnoticed.
  Hash128 stamp() const;

  /// Call it before the first byte is used: after that `held` can tell.
  void watch();
  /// Whether all that was read since `watch` are the bytes that hash() stands for, and the paths still name them.
  bool held();

 private:
  const Gguf& file_;
  const LoadWork& work_;
  std::optional<Hash128> hash_;
};

}  // namespace kvpage::engine
