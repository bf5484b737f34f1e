/// \file Every format in every layout, compiled here and nowhere else.
#include "attention_storage.hpp"

#include <kvpage/kv/kv_formats.hpp>

namespace kvpage_test {
namespace {

/// One vector through a codec, in double, without any page: rotate, encode, decode, rotate back.
template <KVCodec Codec>
void round_trip_vector(double* x, std::int64_t head_dim) {
  if constexpr (Codec::kRotated) hadamard_rotate(x, head_dim);
  std::vector<float> row(x, x + head_dim);
  std::vector<typename Codec::Code> codes(row.size());
  std::vector<std::uint16_t> params(static_cast<std::size_t>(Codec::num_params(head_dim)) + 1);
  Codec::encode(row.data(), head_dim, codes.data(), params.data());
  for (std::int64_t d = 0; d < head_dim; ++d) {
    x[d] = static_cast<double>(Codec::decode(codes[static_cast<std::size_t>(d)], params.data(), d));
  }
  if constexpr (Codec::kRotated) hadamard_unrotate(x, head_dim);
}

template <KVFormat Format>
std::vector<DenseKV<double>> round_trip(const AttentionProblem& problem) {
  std::vector<DenseKV<double>> kv = exact_kv(problem);
  for (DenseKV<double>& seq : kv) {
    for (std::size_t at = 0; at < seq.k.size(); at += static_cast<std::size_t>(problem.head_dim)) {
      round_trip_vector<typename Format::Key>(seq.k.data() + at, problem.head_dim);
      round_trip_vector<typename Format::Value>(seq.v.data() + at, problem.head_dim);
    }
  }
  return kv;
}

template <KVFormat Format, KVLayout Layout>
AttentionResult run(const AttentionProblem& problem, const RunOptions& options) {
  return AttentionRun<PagedKV<Format, Layout>>(problem, options).run();
}

template <KVFormat Format, KVLayout Layout>
Storage make_storage() {
  return {std::string(Format::kName), std::string(Layout::kName), &run<Format, Layout>, &round_trip<Format>};
}
}  // namespace

const std::vector<Storage>& storages() {
  static const std::vector<Storage> all = [] {
    std::vector<Storage> list;
    for_each_type(KVFormats{}, [&]<class Format>() {
      list.push_back(make_storage<Format, KeyTransposedLayout>());
      list.push_back(make_storage<Format, TokenMajorLayout>());
      list.push_back(make_storage<Format, HeadMajorLayout>());
    });
    return list;
  }();
  return all;
}

}  // namespace kvpage_test
