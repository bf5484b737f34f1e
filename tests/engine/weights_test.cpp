/// \file Weights are one copy in memory: packed slice by slice, each byte of the file fetched once, rows as the file has them.
#include "engine/backend/cpu_backend.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/memory_plan.hpp"
#include "engine/model/weight_loader.hpp"
#include "engine/tiny_models.hpp"
#include "engine/tokenizer_from_gguf.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <cstring>

namespace kvpage_test {
namespace {

using kvpage::engine::CpuBackend;
using kvpage::engine::Gguf;

/// Rows at the edges of slices and panels, and some between.
std::vector<std::int64_t> some_rows(std::int64_t num_rows) {
  std::vector<std::int64_t> rows{0, 31, 32, num_rows - 1};
  for (std::int64_t row = 0; row < num_rows; row += 997) rows.push_back(row);
  return rows;
}

void check_embedding(std::string_view model_name) {
  auto file = Gguf::open(model_path(model_name));
  if (!file) FAIL(file.error().to_string());
  const kvpage::WeightView view = file->find_tensor("token_embd.weight")->view();
  CpuBackend backend({.num_threads = 2});
  backend.reserve_weights(CpuBackend::packed_weight_bytes(view));
  const std::byte* next = view.data;  // what was fetched so far
  std::vector<std::byte> slice;
  const auto weight = backend.load(view, [&](std::span<const std::byte> data) -> std::span<const std::byte> {
    CHECK(data.data() == next);
    next += data.size();
    slice.resize(data.size());
    REQUIRE(file->read(data, slice));
    return slice;
  });
  REQUIRE(weight);
  CHECK(next == view.data + view.rows * view.row_bytes);
  CHECK_FALSE(CpuBackend::reads_file(*weight));
  CHECK(CpuBackend::weight_bytes(*weight) == CpuBackend::packed_weight_bytes(view));

  const kvpage::EmbeddingTable table(*weight);
  std::vector<float> packed(static_cast<std::size_t>(view.cols)), stored = packed;
  std::int64_t different = 0;
  for (const std::int64_t row : some_rows(view.rows)) {
    table.decode_row(row, packed.data());
    view.decode_row(row, stored.data());
    different += std::memcmp(packed.data(), stored.data(), packed.size() * sizeof(float)) != 0;
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("engine.weights.embedding_rows_of_panels_are_those_of_the_file_bitwise", "[engine]") {
  for (const char* name : {"smollm2", "gemma3", "qwen0.5b"}) {
    INFO(name);
    check_embedding(name);
  }
}

TEST_CASE("engine.weights.a_load_beyond_the_reserved_memory_is_refused", "[engine]") {
  const TinyFile tiny(quantised_model());
  const kvpage::WeightView view = tiny.gguf().find_tensor("token_embd.weight")->view();
  CpuBackend backend({.num_threads = 1});
  backend.reserve_weights(CpuBackend::packed_weight_bytes(view) + 64);
  const auto from_map = [](std::span<const std::byte> data) { return data; };
  CHECK(backend.load(view, from_map));
  const auto second = backend.load(view, from_map);
  REQUIRE_FALSE(second);
  CHECK(second.error().code() == kvpage::StatusCode::kCapacity);
}

TEST_CASE("engine.weights.a_file_that_shrinks_during_a_load_is_an_error_with_its_name", "[engine]") {
  const TinyFile tiny(quantised_model());
  const kvpage::engine::GgufTensor& tensor = *tiny.gguf().find_tensor("output.weight");
  const auto offset = tensor.data.data() - tiny.gguf().part(0).bytes().data();
  std::filesystem::resize_file(tiny.path(), static_cast<std::uintmax_t>(offset) + tensor.data.size() / 2);
  CpuBackend backend({.num_threads = 2});
  const auto spec = kvpage::engine::read_model_spec(tiny.gguf()).value();
  const kvpage::engine::ProgressCallback no_progress;
  kvpage::engine::WeightLoader<CpuBackend> loader(backend, tiny.gguf(), kvpage::engine::model_matrices(tiny.gguf(), spec), no_progress);
  static_cast<void>(loader("output.weight", tensor.view()));
  const auto loaded = loader.finish();
  REQUIRE_FALSE(loaded);
  const auto whole = tiny.try_load(tiny_config("cpu"));
  REQUIRE_FALSE(whole);
  for (const auto& error : {loaded.error(), whole.error()}) {
    CHECK(error.file == tiny.path().string());
    CHECK(error.found.find("shrank") != std::string::npos);
  }
}

TEST_CASE("engine.weights.a_model_whose_file_is_closed_computes_the_same", "[engine]") {
  TinyFile tiny(quantised_model());
  const auto prompt = some_ids(20);
  const auto model = tiny.load(tiny_config("cpu"));
  kvpage::engine::SequenceRunner runner(*model);
  const auto before = append_all(runner, prompt);
  auto other = [&] {
    const auto file = Gguf::open(tiny.path());
    REQUIRE(file);
    const auto spec = kvpage::engine::read_model_spec(*file);
    REQUIRE(spec);
    return kvpage::engine::load_language_model(*file, *spec, tiny_config("cpu"));
  }();
  REQUIRE(other);
  const auto uses = (*other)->kernel_uses();
  REQUIRE(std::none_of(uses.begin(), uses.end(), [](const auto& use) { return use.in_file; }));
  kvpage::engine::SequenceRunner second(**other);
  CHECK(append_all(second, prompt) == before);
}

TEST_CASE("engine.plan.weights_and_pool_are_what_a_load_takes", "[engine]") {
  for (const TinyModel& tiny_model : {every_switch(), plain_model(), quantised_model()}) {
    const TinyFile tiny(tiny_model);
    const auto spec = kvpage::engine::read_model_spec(tiny.gguf());
    const auto tokenizer = kvpage::engine::read_tokenizer(tiny.gguf());
    REQUIRE(tokenizer);
    for (const std::string& kernels : kvpage::engine::backend_names()) {
      for (const std::string& kv_type : kvpage::engine::kv_type_names()) {
        auto config = tiny_config(kernels, kv_type);
        config.pool_tokens = 77;
        config.num_seqs = 3;
        INFO(tiny_model.architecture << ' ' << kernels << ' ' << kv_type);
        const auto plan = kvpage::engine::plan_memory({tiny.gguf(), *spec, *tokenizer}, config);
        const auto model = tiny.load(config);
        CHECK(plan.kv.num_blocks == model->pool_shape().num_blocks);
        CHECK(plan.kv.page_bytes == model->page_bytes());
        CHECK(plan.kv.pool_bytes == model->pool_shape().num_blocks * model->page_bytes());
        std::int64_t weight_bytes = 0;
        for (const auto& use : model->kernel_uses()) weight_bytes += use.operation == "gemm" || use.operation == "rms_norm" ? use.bytes : 0;
        CHECK(plan.weight_bytes == weight_bytes);
      }
    }
  }
}

}  // namespace kvpage_test
