/// \file The property finds kernels that break the law in the ways that real ones did, and lets a sound one pass.
#include "kernels_law/law.hpp"

namespace kvpage_test {
namespace {

enum class Fault : std::uint8_t { kNone, kSplitByRows, kSplitByThreads, kReadsNeighbour, kNearlyNever };

/// Sums rows of 40 floats.
struct SumProblem {
  Fault fault;
  std::vector<float> x;

  SumProblem(Fault wanted, LawRandom& random) : fault(wanted), x(random.floats(40 * num_rows())) {}
  std::int64_t num_rows() const { return 40; }
  std::string description() const { return "sum"; }

  std::vector<RowBytes> run(kvpage::Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    PlacedRows in(x, 40, rows, how);
    std::vector<RowBytes> all;
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      std::int64_t split = 40;
      if (fault == Fault::kSplitByRows && std::ssize(rows) > 4) split = 20;
      if (fault == Fault::kSplitByThreads && cpu.num_threads() == 3) split = 13;
      if (fault == Fault::kNearlyNever && std::ssize(rows) == 17 && i == 16) split = 20;  // 1 of 1,300 pairs
      float sums[2] = {};
      for (std::int64_t k = 0; k < 40; ++k) sums[k < split ? 0 : 1] += in.row(i)[k];
      float sum = sums[0] + sums[1];
      if (fault == Fault::kReadsNeighbour && i > 0) sum += 1e-6f * in.row(i - 1)[0];
      all.push_back(bytes_of(&sum, 1));
    }
    return all;
  }
};

LawReport report_of(Fault fault, std::int64_t num_pairs) {
  return compare_pairs(num_pairs, 1, [&](LawRandom& random) { return SumProblem(fault, random); });
}

}  // namespace

TEST_CASE("kernels_law.a_sound_kernel_passes", "[kernels_law]") {
  const LawReport report = report_of(Fault::kNone, 500);
  CHECK(report.violation.empty());
  CHECK(report.num_pairs == 500);
  CHECK(report.num_apart > 490);
}

TEST_CASE("kernels_law.faults_are_found_and_can_be_seen_again", "[kernels_law]") {
  for (const Fault fault : {Fault::kSplitByRows, Fault::kSplitByThreads, Fault::kReadsNeighbour}) {
    const LawReport report = report_of(fault, 500);
    INFO(static_cast<int>(fault) << ": " << report.violation);
    CHECK(report.num_pairs < 50);
    CHECK(report.violation.find("seed ") == 0);
    CHECK(report_of(fault, 500).violation == report.violation);
  }
}

TEST_CASE("kernels_law.ten_thousand_pairs_find_a_fault_of_one_batch_size_and_place", "[kernels_law]") {
  CHECK(!report_of(Fault::kNearlyNever, kPairsPerNight).violation.empty());
}

}  // namespace kvpage_test
