/// \file How fast this machine reads and copies memory: one JSON object in bytes per second: read_1 and read_n (threads), streams_1 and
/// streams_n (each thread reads 8 places in turn), copy_n. The memory lies on huge pages, as weights do.
#include "engine/backend/mapped_memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t kBytes = std::int64_t{384} << 20;  // larger than any cache
constexpr int kRepeats = 5;

std::uint64_t sum(std::span<const std::uint64_t> words) {
  std::uint64_t lanes[8] = {};
  for (std::size_t i = 0; i + 8 <= words.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) lanes[lane] += words[i + lane];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t lane : lanes) total += lane;
  return total;
}

/// As sum(), from 8 places in turn, a cache line from each, asked for ahead of time.
std::uint64_t sum_of_streams(std::span<const std::uint64_t> words) {
  constexpr std::size_t kStreams = 8, kLine = 8, kAhead = 16 * kLine;
  const std::size_t stream_words = words.size() / kStreams;
  std::uint64_t lanes[kLine] = {};
  for (std::size_t i = 0; i + kLine <= stream_words; i += kLine) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const std::uint64_t* const line = words.data() + stream * stream_words + i;
      __builtin_prefetch(line + kAhead);
      for (std::size_t lane = 0; lane < kLine; ++lane) lanes[lane] += line[lane];
    }
  }
  std::uint64_t total = 0;
  for (const std::uint64_t lane : lanes) total += lane;
  return total;
}

/// Best seconds of `work(part)` running on `num_threads` threads at once.
double best_seconds(unsigned num_threads, const std::function<void(unsigned)>& work) {
  double best = 1e30;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::jthread> threads;
    for (unsigned part = 1; part < num_threads; ++part) threads.emplace_back(work, part);
    work(0);
    threads.clear();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Bytes per second of reading the whole of `words` with `num_threads` threads.
double read_rate(std::span<const std::uint64_t> words, unsigned num_threads, std::uint64_t (*read)(std::span<const std::uint64_t>)) {
  const std::size_t part_words = words.size() / num_threads / 64 * 64;
  std::vector<std::uint64_t> sums(num_threads);
  const double seconds = best_seconds(num_threads, [&](unsigned part) { sums[part] = read(words.subspan(part * part_words, part_words)); });
  if (sums[0] != part_words) std::printf("{\"error\": \"wrong sum\"}\n");  // also keeps the loop from being optimised away
  return static_cast<double>(part_words * num_threads * sizeof(std::uint64_t)) / seconds;
}

/// Bytes per second of copying one half of `words` over the other with `num_threads` threads.
double copy_rate(std::span<std::uint64_t> words, unsigned num_threads) {
  const std::size_t part_words = words.size() / 2 / num_threads;
  const double seconds = best_seconds(num_threads, [&](unsigned part) {
    std::uint64_t* const from = words.data() + part * part_words;
    std::memcpy(from + words.size() / 2, from, part_words * sizeof(std::uint64_t));
  });
  return static_cast<double>(part_words * num_threads * sizeof(std::uint64_t)) / seconds;
}

}  // namespace

int main() {
  const kvpage::engine::MappedMemory memory(kBytes);
  const std::span<std::byte> bytes = memory.span();
  const std::span<std::uint64_t> words(reinterpret_cast<std::uint64_t*>(bytes.data()), bytes.size() / sizeof(std::uint64_t));
  std::fill(words.begin(), words.end(), 1);
  const unsigned num_threads = std::max(1u, std::thread::hardware_concurrency());
  std::printf("{\"read_1\": %.6g, \"read_n\": %.6g, ", read_rate(words, 1, sum), read_rate(words, num_threads, sum));
  std::printf("\"streams_1\": %.6g, ", read_rate(words, 1, sum_of_streams));
  std::printf("\"streams_n\": %.6g, ", read_rate(words, num_threads, sum_of_streams));
  std::printf("\"copy_n\": %.6g}\n", copy_rate(words, num_threads));
  return 0;
}
