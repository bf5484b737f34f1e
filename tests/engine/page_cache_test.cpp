/// \file Sharing, copying, evicting, demoting and releasing pages changes no bit of any answer, with every unwritten page full of NaN.
#include "engine/tiny_models.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

/// What one request got: the logits behind each token that was fed, and the tokens.
struct Answer {
  std::vector<TokenId> ids;
  std::vector<std::vector<float>> logits;
  bool operator==(const Answer&) const = default;
};

/// Six tokens, greedily.
Answer answer(SequenceRunner& runner, std::span<const TokenId> prompt) {
  Answer got;
  const auto keep = [&](std::int64_t, std::span<const float> logits) {
    got.logits.emplace_back(logits.begin(), logits.end());
    got.ids.push_back(static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    return true;
  };
  if (const auto started = runner.start(prompt, LogitRows::kLast, keep); !started) FAIL(started.error().message);
  for (int i = 0; i < 5; ++i) {
    const TokenId last = got.ids.back();
    if (const auto appended = runner.append({&last, 1}, LogitRows::kLast, keep); !appended) FAIL(appended.error().message);
  }
  return got;
}

/// Two conversations that begin alike and come back, between texts that share nothing.
std::vector<std::vector<TokenId>> conversations() {
  const auto system = some_ids(37, 5);
  std::vector<std::vector<TokenId>> prompts;
  const auto ask = [&](std::vector<TokenId> start, std::size_t count, std::uint32_t seed) {
    const auto more = some_ids(count, seed);
    start.insert(start.end(), more.begin(), more.end());
    prompts.push_back(start);
    return start;
  };
  const auto first = ask(system, 20, 11), second = ask(system, 9, 12);
  ask({}, 80, 13);
  const auto third = ask(first, 15, 14);
  prompts.push_back(first);
  ask({}, 75, 15);
  ask(second, 30, 16);
  ask({}, 85, 17);
  ask(third, 4, 18);
  prompts.push_back(prompts.back());  // a full hit
  ask(system, 1, 19);
  return prompts;
}

/// A byte pattern that is NaN, or a NaN scale, in every format.
void poison(std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0xFF}); }
void poison_pool(LanguageModel& model) {
  for (std::uint32_t b = 0; static_cast<std::int64_t>(b) < model.pool_shape().num_blocks; ++b) poison(model.page(kvpage::BlockId{b}));
}

ModelConfig config_of(const std::string& kernels, const std::string& kv_type, std::int64_t pool_blocks) {
  ModelConfig config = tiny_config(kernels, kv_type);
  config.pool_tokens = 112;
  config.pool_blocks = pool_blocks;
  return config;
}

/// The answers of a model that has a new cache for each prompt.
std::vector<Answer> lonely_answers(const TinyFile& file, const std::string& kernels, const std::string& kv_type) {
  const auto model = file.load(config_of(kernels, kv_type, 0));
  std::vector<Answer> answers;
  for (const auto& prompt : conversations()) {
    SequenceRunner runner(*model, {.share_prefixes = false});
    answers.push_back(answer(runner, prompt));
    CHECK(runner.cached_tokens() == 0);
  }
  return answers;
}

/// Runs all prompts twice through one cache and compares every answer.
CacheCounters check_answers(LanguageModel& model, const PageCacheOptions& options, const std::vector<Answer>& want, std::int64_t chunk) {
  poison_pool(model);
  SequenceRunner runner(model, options);
  runner.set_chunk_tokens(chunk);
  const auto prompts = conversations();
  std::int64_t cached = 0;
  for (std::size_t i = 0; i < 2 * prompts.size(); ++i) {
    const std::size_t p = i % prompts.size();
    INFO("prompt " << p << ", evict " << options.evict << ", chunk " << chunk);
    CHECK((answer(runner, prompts[p]) == want[p]));
    cached += runner.cached_tokens();
    CHECK(runner.cached_tokens() < static_cast<std::int64_t>(prompts[p].size()));
  }
  runner.finish();
  runner.cache().allocator().check_invariants();
  CHECK(runner.cache().allocator().capacity().used == 0);
  CHECK((cached > 0) == options.share_prefixes);
  return runner.cache().counters();
}

void add(CacheCounters& sum, const CacheCounters& one) {
  sum.copies += one.copies, sum.evictions += one.evictions, sum.demoted += one.demoted, sum.promoted += one.promoted;
  sum.window_released += one.window_released, sum.failed_loads += one.failed_loads;
}

/// Every policy with and without a host tier, in a pool that holds little more than the longest answer.
void check_small_pool(const TinyModel& shape, std::int64_t pool_blocks, const std::string& kernels, const std::string& kv_type) {
  const TinyFile file(shape);
  const auto want = lonely_answers(file, kernels, kv_type);
  const auto model = file.load(config_of(kernels, kv_type, pool_blocks));
  CacheCounters sum;
  std::int64_t chunk = 512;
  for (const std::string& evict : EvictionChoice::names()) {
    for (const std::int64_t tier_pages : {0, 24}) {
      PageCacheOptions options{.evict = evict, .host_tier_bytes = tier_pages * model->page_bytes(), .on_new_page = poison};
      const CacheCounters counters = check_answers(*model, options, want, chunk);
      CHECK(counters.peak_used_blocks <= pool_blocks);
      CHECK((counters.demoted > 0) == (tier_pages > 0));
      add(sum, counters);
      chunk = chunk == 512 ? 7 : 512;
    }
  }
  INFO(kernels << ", " << kv_type);
  CHECK(sum.copies > 0);
  CHECK(sum.evictions > 0);
  CHECK(sum.promoted > 0);
  CHECK(sum.failed_loads == 0);
  CHECK((sum.window_released > 0) == (shape.window > 0));
}

}  // namespace

TEST_CASE("engine.page_cache.a_small_pool_changes_no_bit_with_windows", "[engine]") {
  for (const std::string kv_type : {"f16", "int8", "int4"}) check_small_pool(every_switch(), 16, "cpu", kv_type);
}

TEST_CASE("engine.page_cache.a_small_pool_changes_no_bit_with_key_biases", "[engine]") {
  for (const std::string kv_type : {"f16", "int8", "int4", "int4-k4", "fp8", "bf16"}) check_small_pool(biased_model(), 8, "cpu", kv_type);
}

TEST_CASE("engine.page_cache.a_small_pool_changes_no_bit_of_the_reference", "[engine]") {
  check_small_pool(every_switch(), 16, "reference", "f32");
  check_small_pool(every_switch(), 16, "reference", "int8");
}

TEST_CASE("engine.page_cache.damaged_pages_of_the_host_tier_shorten_the_hit", "[engine]") {
  for (const TinyModel& shape : {every_switch(), biased_model()}) {
    const TinyFile file(shape);
    const auto want = lonely_answers(file, "cpu", "f16");
    const auto model = file.load(config_of("cpu", "f16", shape.window > 0 ? 16 : 8));
    poison_pool(*model);
    SequenceRunner runner(*model, {.host_tier_bytes = 64 * model->page_bytes(), .on_new_page = poison});
    const auto prompts = conversations();
    const std::span<std::byte> pages = runner.cache().host_tier_pages();
    for (std::size_t i = 0; i < 4 * prompts.size(); ++i) {
      INFO(shape.architecture << ", request " << i);
      const std::int64_t promoted = runner.cache().counters().promoted;
      CHECK((answer(runner, prompts[i % prompts.size()]) == want[i % prompts.size()]));
      // Whole pages behind a damaged one are not counted: no prompt found them.
      const std::int64_t promoted_tokens = (runner.cache().counters().promoted - promoted) * model->pool_shape().block_size;
      if (shape.window == 0) CHECK(promoted_tokens <= runner.cached_tokens() + 1);  // the last one is computed again for its logits
      // One bit of every other page: the tier finds the content, and its checksum the damage.
      for (std::size_t at = 100; at < pages.size(); at += 2 * static_cast<std::size_t>(model->page_bytes())) pages[at] ^= std::byte{4};
    }
    CHECK(runner.cache().counters().failed_loads > 0);
    CHECK(runner.cache().counters().promoted > 0);
    runner.finish();
    runner.cache().allocator().check_invariants();
  }
}

TEST_CASE("engine.page_cache.a_load_larger_than_the_pool_comes_in_parts", "[engine]") {
  const TinyFile file(every_switch());
  const auto a = some_ids(100, 3), b = some_ids(100, 4);
  const auto model = file.load(config_of("cpu", "f16", 16));
  const std::int64_t block_size = model->pool_shape().block_size, full_blocks = std::ssize(a) / block_size;
  REQUIRE(full_blocks * model->cache_groups().num_groups() > 16);
  const auto alone = [&](const std::vector<TokenId>& prompt) {
    SequenceRunner runner(*model, {.share_prefixes = false});
    return answer(runner, prompt);
  };
  const Answer want_a = alone(a), want_b = alone(b);
  poison_pool(*model);
  SequenceRunner runner(*model, {.host_tier_bytes = 200 * model->page_bytes(), .on_new_page = poison});
  const CacheCounters& counters = runner.cache().counters();
  CHECK((answer(runner, a) == want_a));
  for (int i = 0; i < 2; ++i) {
    INFO("round " << i);
    CHECK((answer(runner, b) == want_b));
    const CacheCounters before = counters;
    CHECK((answer(runner, a) == want_a));
    CHECK(counters.promoted - before.promoted >= full_blocks);
    CHECK(runner.cached_tokens() >= full_blocks * block_size);
    // Hardly a page of this sequence fell behind a window; those that the load took and left empty are no such pages.
    CHECK(counters.window_released - before.window_released < full_blocks);
  }
  CHECK((answer(runner, a) == want_a));
  CHECK(counters.failed_loads == 0);
  runner.finish();
  runner.cache().allocator().check_invariants();
  CHECK(runner.cache().allocator().capacity().used == 0);
}

TEST_CASE("engine.page_cache.without_sharing_every_position_is_computed", "[engine]") {
  const TinyFile file(every_switch());
  const auto want = lonely_answers(file, "cpu", "f16");
  const auto model = file.load(config_of("cpu", "f16", 16));
  const CacheCounters counters = check_answers(*model, {.share_prefixes = false, .on_new_page = poison}, want, 512);
  CHECK(counters.copies == 0);
  CHECK(counters.evictions == 0);
  CHECK(counters.window_released > 0);
}

TEST_CASE("engine.page_cache.tables_of_window_layers_outgrow_the_pool", "[engine]") {
  TinyModel shape = plain_model();
  shape.window = 11;
  const TinyFile file(shape);
  const auto roomy = file.load(config_of("cpu", "f16", 0));
  REQUIRE(roomy->cache_groups().window_tokens == std::vector<std::int64_t>{11});
  const auto want = lonely_answers(file, "cpu", "f16");
  const auto model = file.load(config_of("cpu", "f16", 4));
  const CacheCounters counters = check_answers(*model, {.host_tier_bytes = 8 * model->page_bytes(), .on_new_page = poison}, want, 512);
  CHECK(counters.window_released > 0);
  CHECK(counters.evictions > 0);
}

}  // namespace kvpage_test
