/// \file CraftedFile: one wrong GGUF file per class of fault, with what its error must name.
#pragma once

#include "support/gguf_writer.hpp"

#include <string>
#include <vector>

namespace kvpage_test {

struct CraftedFile {
  std::string slug;
  std::string item;   ///< part of LoadError::item
  std::string found;  ///< part of LoadError::found
  std::string bytes;
};

/// A small right file: four keys, three tensors of three formats. Every crafted file differs from it in one place.
inline GgufWriter right_file() {
  GgufWriter writer;
  writer.text("general.architecture", "llama").number("llama.block_count", std::uint32_t{2});
  writer.texts("tokenizer.ggml.tokens", {"a", "bc", ""}).numbers("tokenizer.ggml.scores", std::vector<float>{0.5f, -1, 2});
  writer.tensor("first", {3, 2}, 0, std::string(24, '\1'));
  writer.tensor("second", {64, 3}, 2, std::string(108, '\2'));
  writer.tensor("third", {256}, 12, std::string(144, '\3'));
  return writer;
}

std::vector<CraftedFile> crafted_preambles();  ///< magic, version, counts
std::vector<CraftedFile> crafted_metadata();   ///< keys, values, alignment
std::vector<CraftedFile> crafted_shapes();     ///< names, dimensions, types of tensors
std::vector<CraftedFile> crafted_places();     ///< offsets, overlap, missing data

}  // namespace kvpage_test
