#include "tools/kvpage/request_mix.hpp"

#include <kvpage/base/assert.hpp>
#include <kvpage/base/philox.hpp>

#include <cmath>
#include <memory>

namespace kvpage::cli {
namespace {

using Tokens = std::vector<TokenId>;

/// Random numbers of one purpose.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint32_t purpose, std::int64_t vocab_size)
      : key_{.seed = seed, .child = purpose}, vocab_size_(vocab_size) {}

  /// In (0, 1].
  double unit() {
    ++key_.position;
    return (static_cast<double>(draw_bits(key_) >> 11) + 1) * 0x1p-53;
  }
  std::int64_t between(std::int64_t first, std::int64_t last) {
    ++key_.position;
    return first + static_cast<std::int64_t>(draw_bits(key_) % static_cast<std::uint64_t>(last - first + 1));
  }
  std::int64_t log_uniform(std::int64_t first, std::int64_t last) {
    const double low = std::log2(static_cast<double>(first)), high = std::log2(static_cast<double>(last) + 1);
    return std::min(last, static_cast<std::int64_t>(std::exp2(low + (high - low) * (1 - unit()))));
  }
  Tokens tokens(std::int64_t count) {
    Tokens result;
    for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<TokenId>(between(0, vocab_size_ - 1)));
    return result;
  }

 private:
  DrawKey key_;
  std::int64_t vocab_size_;
};

void append(Tokens& to, const Tokens& more) { to.insert(to.end(), more.begin(), more.end()); }

/// What one request asks.
struct Ask {
  Tokens prompt;
  std::int64_t max_tokens = 0;
};

/// A source of requests of one shape.
class Source {
 public:
  virtual ~Source() = default;
  virtual Ask next() = 0;
};

/// Prompts that share nothing.
class Unrelated final : public Source {
 public:
  struct Lengths {
    std::int64_t prompt_min, prompt_max, output_min, output_max;
  };
  Unrelated(Draws draws, const Lengths& lengths) : draws_(draws), lengths_(lengths) {}

  Ask next() override {
    const std::int64_t prompt = draws_.log_uniform(lengths_.prompt_min, lengths_.prompt_max);
    const std::int64_t output = draws_.log_uniform(lengths_.output_min, lengths_.output_max);
    return {draws_.tokens(prompt), output};
  }

 private:
  Draws draws_;
  Lengths lengths_;
};

class Chat final : public Source {
 public:
  explicit Chat(Draws draws) : draws_(draws), system_(draws_.tokens(96)), talks_(kNumTalks, Talk{system_, 0}) {}

  Ask next() override {
    Talk& talk = talks_[static_cast<std::size_t>(draws_.between(0, kNumTalks - 1))];
    if (talk.turns++ == kMaxTurns) talk = {system_, 1};
    append(talk.said, draws_.tokens(draws_.log_uniform(8, 64)));
    Ask ask{talk.said, draws_.log_uniform(16, 128)};
    append(talk.said, draws_.tokens(ask.max_tokens));  // stands for the answer, which nobody knows yet
    return ask;
  }

 private:
  static constexpr std::int64_t kNumTalks = 8;
  static constexpr int kMaxTurns = 6;
  struct Talk {
    Tokens said;
    int turns;
  };

  Draws draws_;
  Tokens system_;
  std::vector<Talk> talks_;
};

class Code final : public Source {
 public:
  explicit Code(Draws draws) : draws_(draws) {
    for (int i = 0; i < kNumFiles; ++i) files_.push_back(draws_.tokens(kFileTokens));
  }

  Ask next() override {
    const Tokens& file = files_[static_cast<std::size_t>(draws_.between(0, kNumFiles - 1))];
    Tokens prompt(file.begin(), file.begin() + draws_.between(kFileTokens / 4, kFileTokens));
    append(prompt, draws_.tokens(draws_.log_uniform(4, 16)));
    return {std::move(prompt), draws_.log_uniform(4, 64)};
  }

 private:
  static constexpr int kNumFiles = 4;
  static constexpr std::int64_t kFileTokens = 768;

  Draws draws_;
  std::vector<Tokens> files_;
};

std::unique_ptr<Source> make_source(const MixOptions& options, std::int64_t vocab_size) {
  const Draws draws(options.seed, 1, vocab_size);
  if (options.kind == "random") return std::make_unique<Unrelated>(draws, Unrelated::Lengths{16, 512, 8, 256});
  if (options.kind == "long") return std::make_unique<Unrelated>(draws, Unrelated::Lengths{1024, 4096, 64, 256});
  if (options.kind == "chat") return std::make_unique<Chat>(draws);
  KVPAGE_ASSERT(options.kind == "code", "the kind of a mix is one of kMixKinds");
  return std::make_unique<Code>(draws);
}

}  // namespace

std::vector<TimedRequest> generate_mix(const MixOptions& options, std::int64_t vocab_size) {
  const auto source = make_source(options, vocab_size);
  Draws arrivals(options.seed, 2, vocab_size);
  std::vector<TimedRequest> requests;
  double arrival_s = 0;
  for (std::int64_t i = 0; i < options.count; ++i) {
    Ask ask = source->next();
    TimedRequest& r = requests.emplace_back();
    if (options.rate_per_s > 0) arrival_s += -std::log(arrivals.unit()) / options.rate_per_s;
    r.arrival_ns = static_cast<std::int64_t>(arrival_s * 1e9);
    r.request.name = options.kind + "-" + std::to_string(i);
    r.request.prompt_ids = std::move(ask.prompt);
    r.request.max_tokens = ask.max_tokens;
    r.request.sampling.temperature = 0;
    r.request.ignore_eos = true;
  }
  return requests;
}

}  // namespace kvpage::cli
