/// \file B45: the output matrix is that of the file, or the embedding if the file has none.
#include "engine/dense_reference.hpp"
#include "engine/tiny_models.hpp"

namespace kvpage_test {
namespace {

using LogitRows = std::vector<std::vector<float>>;

LogitRows logits_of(const GgufWriter& writer, const std::string& kernels) {
  const auto file = std::make_unique<TinyFile>(writer);
  const auto model = file->load(tiny_config(kernels));
  kvpage::engine::SequenceRunner runner(*model);
  return append_all(runner, some_ids(9));
}

/// The tied model with a copy of its embedding as output matrix.
GgufWriter with_output_copy(const TinyModel& model) {
  GgufWriter writer = tiny_gguf(model);
  const GgufWriter::Tensor embedding = tensor_of(writer, "token_embd.weight");
  writer.tensor("output.weight", embedding.dims, embedding.type, embedding.data);
  return writer;
}

}  // namespace

TEST_CASE("bug.B45.absent_or_equal_output_weights_share_the_embedding", "[engine]") {
  TinyModel quantised = quantised_model();
  quantised.tied = true;
  for (const TinyModel& model : {plain_model(), quantised}) {
    for (const std::string kernels : {"reference", "cpu"}) {
      CHECK(logits_of(tiny_gguf(model), kernels) == logits_of(with_output_copy(model), kernels));
    }
  }
}

TEST_CASE("bug.B45.one_changed_output_weight_changes_one_logit", "[engine]") {
  constexpr std::size_t kChanged = 200;
  const TinyModel model = plain_model();
  GgufWriter writer = with_output_copy(model);
  set_float(tensor_of(writer, "output.weight"), kChanged * model.hidden + 3, 4.0f);
  for (const std::string kernels : {"reference", "cpu"}) {
    const LogitRows tied = logits_of(tiny_gguf(model), kernels), own = logits_of(writer, kernels);
    for (std::size_t t = 0; t < tied.size(); ++t) {
      for (std::size_t id = 0; id < tied[t].size(); ++id) CHECK((tied[t][id] == own[t][id]) == (id != kChanged));
    }
  }
}

TEST_CASE("bug.B45.only_an_output_matrix_is_an_error", "[engine]") {
  GgufWriter writer = with_output_copy(plain_model());
  erase_tensor(writer, "token_embd.weight");
  CHECK(load_error(writer).found.find("token_embd.weight") != std::string::npos);
}

}  // namespace kvpage_test
