/// \file A weight format and a KV precision of one's own, through the packed kernels on every instruction set: the results
/// against the oracle and bit for bit against each other, the speed beside the nearest shipped format.
///
/// What a user writes is one file each: nibbles64.hpp, the weight format, and grouped_bytes_kv.hpp, the KV precision. This file
/// runs them as it would any other; support/ holds random operands and a stopwatch.
/// Arguments: none; --check (no speed); --json (speed as one figure per line).
#include "01_custom_precision/grouped_bytes_kv.hpp"
#include "01_custom_precision/nibbles64.hpp"
#include "01_custom_precision/support/attention_case.hpp"
#include "01_custom_precision/support/nearest_shipped.hpp"
#include "01_custom_precision/support/speed.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using kvpage::Cpu;
using kvpage::Isa;
using own::GroupedBytesKV;
using own::Nibbles64;
using ShippedWeights = own::NearestWeightFormat<Nibbles64>;
using ShippedKV = own::NearestKVFormat<GroupedBytesKV>;

enum class Output { kText, kCheck, kJson };

/// Ends the program when a promise does not hold.
void check(bool holds, Isa isa, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s does not hold\n", kvpage::isa_name(isa), promise);
  std::exit(1);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

/// The results of one instruction set against the oracles, and against `first`, those of the first one.
void check_results(Isa isa, Output output, std::vector<std::vector<float>>& first) {
  Cpu cpu({.num_threads = 2, .isa = isa});
  std::vector<std::vector<float>> results(3);
  const own::PackedMatrix<Nibbles64> matrix(cpu, 96, 576);
  const own::Activations x(cpu, 13, 576);
  own::multiply(cpu, matrix.packed(), x, results[0]);
  const double distance = own::distance_from_oracle(matrix.view(), x, results[0]);
  check(distance <= 1.0, isa, "the products lie as near the oracle as rounding allows");
  double difference = 0.0;
  for (const std::size_t i : {1u, 2u}) {  // a step of decode, a chunk of prefill
    own::AttentionCase<GroupedBytesKV> attention(cpu, 300, i == 1 ? 1 : 40);
    std::vector<float> expected;
    attention.run(results[i]);
    attention.run_reference(expected);
    difference = std::max(difference, largest_difference(results[i], expected));
  }
  check(difference <= 1e-4, isa, "attention is within 1e-4 of its reference");
  if (first.empty()) first = results;
  for (std::size_t i = 0; i < results.size(); ++i) check(same_bits(results[i], first[i]), isa, "all instruction sets give the same bits");
  if (output == Output::kJson) return;
  std::printf("%-11s products use %.2f of the error that rounding allows, attention is within %.1e: the bits of every instruction set\n",
              kvpage::isa_name(isa), distance, difference);
}

void print_ratio(Isa isa, Output output, const char* figure, std::string_view shipped, double macs, const own::Comparison& speed) {
  const std::string name(shipped);
  if (output == Output::kText) {
    std::printf("%-11s %-17s %7.1f GMAC/s, %.2f x the speed of %s\n", kvpage::isa_name(isa), figure, macs / speed.own_s * 1e-9,
                speed.ratio, name.c_str());
  } else {
    std::printf("{\"figure\": \"kernels.%s.%s\", \"value\": %.6g, \"unit\": \"MAC/s\", \"against\": \"%s\", \"against_value\": %.6g, "
                "\"ratio\": %.4f}\n",
                figure, kvpage::isa_name(isa), macs / speed.own_s, name.c_str(), macs / speed.shipped_s, speed.ratio);
  }
  std::fflush(stdout);
}

/// One thread and operands in its cache, so that no memory hides what a format costs.
void measure_speed(Isa isa, Output output) {
  Cpu cpu({.num_threads = 1, .isa = isa});
  std::vector<float> out;
  const own::PackedMatrix<Nibbles64> matrix(cpu, 512, 768);
  const own::PackedMatrix<ShippedWeights> shipped(cpu, 512, 768);
  for (const std::int64_t num_rows : {1, 24}) {
    const own::Activations x(cpu, num_rows, 768);
    const auto speed = own::compare([&] { own::multiply(cpu, matrix.packed(), x, out); },
                                    [&] { own::multiply(cpu, shipped.packed(), x, out); });
    const double macs = static_cast<double>(num_rows) * 512.0 * 768.0;
    print_ratio(isa, output, num_rows == 1 ? "custom_weight_m1" : "custom_weight", ShippedWeights::kName, macs, speed);
  }
  for (const bool decode : {true, false}) {
    own::AttentionCase<GroupedBytesKV> attention(cpu, decode ? 1024 : 128, decode ? 1 : 64);
    own::AttentionCase<ShippedKV> other(cpu, decode ? 1024 : 128, decode ? 1 : 64);
    const auto speed = own::compare([&] { attention.run(out); }, [&] { other.run(out); });
    print_ratio(isa, output, decode ? "custom_kv" : "custom_kv_prefill", ShippedKV::kName, attention.macs(), speed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  if (argc > 2 || (!option.empty() && option != "--check" && option != "--json")) {
    std::fprintf(stderr, "usage: %s [--check | --json]\n", argv[0]);
    return 2;
  }
  const Output output = option == "--check" ? Output::kCheck : option == "--json" ? Output::kJson : Output::kText;
  std::vector<std::vector<float>> first;
  for (const Isa isa : kvpage::kAllIsas) {
    if (kvpage::missing_feature(isa, kvpage::detect_cpu_features()) != nullptr) continue;
    check_results(isa, output, first);
    if (output != Output::kCheck) measure_speed(isa, output);
  }
  return 0;
}
