/// \file Sharing, copying, evicting, demoting and releasing pages changes no bit of any answer, with every unwritten page full of NaN.
#include "engine_batching/engine_fixture.hpp"

#include <algorithm>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

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
  for (std::uint32_t b = 0; static_cast<std::int64_t>(b) < model.pool_shape().num_blocks; ++b) {
    poison(model.fetch_page(kvpage::BlockId{b}));
    model.store_page(kvpage::BlockId{b});
  }
}

ModelConfig config_of(const std::string& kernels, const std::string& kv_type, std::int64_t pool_blocks) {
  ModelConfig config = tiny_config(kernels, kv_type);
  config.pool_tokens = 112;
  config.pool_blocks = pool_blocks;
  return config;
}

GenerationRequest six_tokens(const std::vector<TokenId>& prompt) { return ask(prompt, 6); }

/// The answers of a model that has a new cache for each prompt.
std::vector<Bits> lonely_answers(const TinyFile& file, const std::string& kernels, const std::string& kv_type) {
  const auto model = file.load(config_of(kernels, kv_type, 0));
  std::vector<Bits> answers;
  for (const auto& prompt : conversations()) answers.push_back(alone(*model, six_tokens(prompt)));
  return answers;
}

/// How prompts come: `at_once` of them, each in chunks of at most `chunk_tokens`.
struct Company {
  std::int64_t at_once = 1;
  std::int64_t chunk_tokens = 512;

  EngineConfig config(const PageCacheOptions& cache) const {
    EngineConfig engine;
    engine.limits.max_seqs = at_once;
    engine.limits.max_chunk_tokens = chunk_tokens;
    engine.cache = cache;
    return engine;
  }
};

/// What cache and scheduler counted.
struct Counters : CacheCounters {
  std::int64_t window_released = 0;
};

/// Runs all prompts twice through one cache and compares every answer.
Counters check_answers(LanguageModel& model, const PageCacheOptions& options, const std::vector<Bits>& want, const Company& company) {
  poison_pool(model);
  TestEnv env;
  TestEngine engine(model, company.config(options), {}, env, {}, nullptr);
  const auto prompts = conversations();
  std::int64_t cached = 0;
  for (std::size_t first = 0; first < 2 * prompts.size(); first += static_cast<std::size_t>(company.at_once)) {
    std::vector<std::pair<kvpage::RequestId, std::size_t>> group;
    for (std::size_t i = first; i < std::min(2 * prompts.size(), first + static_cast<std::size_t>(company.at_once)); ++i) {
      group.emplace_back(engine.submit(six_tokens(prompts[i % prompts.size()])).value().id, i % prompts.size());
    }
    const Results results = run_all(engine);
    for (const auto& [id, p] : group) {
      INFO("prompt " << p << ", evict " << options.evict << ", " << company.at_once << " at once, chunk " << company.chunk_tokens);
      const GenerationResult& result = results.of(id);
      CHECK((Bits::of(result) == want[p]));
      const bool preempted = result.metrics.preempted_recompute + result.metrics.preempted_demote > 0;
      CHECK((preempted || result.metrics.cached_tokens < std::ssize(prompts[p])));
      cached += result.metrics.cached_tokens;
    }
  }
  engine.cache().allocator().check_invariants();
  CHECK(engine.cache().allocator().capacity().used == 0);
  CHECK((cached > 0) == options.share_prefixes);
  return {engine.cache().counters(), engine.stats().window_released};
}

void add(Counters& sum, const Counters& one) {
  sum.copies += one.copies, sum.evictions += one.evictions, sum.demoted += one.demoted, sum.promoted += one.promoted;
  sum.window_released += one.window_released, sum.failed_loads += one.failed_loads;
}

/// Every policy with and without a host tier, in a pool that holds little more than the longest answer.
void check_small_pool(const TinyModel& shape, std::int64_t pool_blocks, const std::string& kernels, const std::string& kv_type) {
  const TinyFile file(shape);
  const auto want = lonely_answers(file, kernels, kv_type);
  const auto model = file.load(config_of(kernels, kv_type, pool_blocks));
  Counters sum;
  Company company;
  for (const std::string& evict : EvictionChoice::names()) {
    for (const std::int64_t tier_pages : {0, 24}) {
      PageCacheOptions options{.evict = evict, .host_tier_bytes = tier_pages * model->page_bytes(), .on_new_page = poison};
      const Counters counters = check_answers(*model, options, want, company);
      CHECK(counters.peak_used_blocks <= pool_blocks);
      CHECK((counters.demoted > 0) == (tier_pages > 0));
      add(sum, counters);
      company.chunk_tokens = company.chunk_tokens == 512 ? 7 : 512;
      company.at_once = company.at_once == 3 ? 1 : 3;
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
    TestEnv env;
    PageCacheOptions options{.host_tier_bytes = 64 * model->page_bytes(), .on_new_page = poison};
    TestEngine engine(*model, Company{}.config(options), {}, env, {}, nullptr);
    const auto prompts = conversations();
    const std::span<std::byte> pages = engine.cache().host_tier_pages();
    for (std::size_t i = 0; i < 4 * prompts.size(); ++i) {
      INFO(shape.architecture << ", request " << i);
      const auto id = engine.submit(six_tokens(prompts[i % prompts.size()])).value().id;
      CHECK((Bits::of(run_all(engine).of(id)) == want[i % prompts.size()]));
      // One bit of every other page: the tier finds the content, and its checksum the damage.
      for (std::size_t at = 100; at < pages.size(); at += 2 * static_cast<std::size_t>(model->page_bytes())) pages[at] ^= std::byte{4};
    }
    CHECK(engine.cache().counters().failed_loads > 0);
    CHECK(engine.cache().counters().promoted > 0);
    engine.cache().allocator().check_invariants();
  }
}

TEST_CASE("engine.page_cache.steps_that_fail_around_loads_lose_no_page", "[engine]") {
  for (const TinyModel& shape : {every_switch(), biased_model()}) {
    const TinyFile file(shape);
    const auto want = lonely_answers(file, "cpu", "f16");
    const auto inner = file.load(config_of("cpu", "f16", shape.window > 0 ? 16 : 8));
    poison_pool(*inner);
    HookedModel model(*inner);
    int calls = 0;
    model.before_forward = [&](const kvpage::BatchPlan&) {
      return ++calls % 3 == 0 ? kvpage::Status(kvpage::StatusCode::kCapacity, "planted") : kvpage::Status();
    };
    TestEnv env;
    const PageCacheOptions options{.host_tier_bytes = 64 * inner->page_bytes(), .on_new_page = poison};
    TestEngine engine(model, Company{.at_once = 2}.config(options), {}, env, {}, nullptr);
    const auto prompts = conversations();
    for (std::size_t i = 0; i < 2 * prompts.size(); i += 2) {
      std::vector<std::pair<kvpage::RequestId, std::size_t>> pair;
      for (const std::size_t p : {i % prompts.size(), (i + 1) % prompts.size()}) {
        pair.emplace_back(engine.submit(six_tokens(prompts[p])).value().id, p);
      }
      Results results;
      while (engine.num_requests() > 0) results.take(engine.step());
      for (const auto& [id, p] : pair) {
        INFO(shape.architecture << ", prompt " << p);
        CHECK((Bits::of(results.of(id)) == want[p]));
      }
    }
    CHECK(engine.stats().aborted_steps > 10);
    CHECK(engine.cache().counters().promoted > 0);
    CHECK(engine.cache().allocator().capacity().used == 0);
    engine.cache().allocator().check_invariants();
  }
}

TEST_CASE("engine.page_cache.a_load_larger_than_the_pool_comes_in_parts", "[engine]") {
  const TinyFile file(every_switch());
  const auto a = six_tokens(some_ids(100, 3)), b = six_tokens(some_ids(100, 4));
  const auto model = file.load(config_of("cpu", "f16", 16));
  const std::int64_t block_size = model->pool_shape().block_size, full_blocks = std::ssize(a.prompt_ids) / block_size;
  REQUIRE(full_blocks * model->cache_groups().num_groups() > 16);
  const Bits want_a = alone(*model, a), want_b = alone(*model, b);
  poison_pool(*model);
  TestEnv env;
  const PageCacheOptions options{.host_tier_bytes = 200 * model->page_bytes(), .on_new_page = poison};
  TestEngine engine(*model, Company{}.config(options), {}, env, {}, nullptr);
  const auto run = [&](const GenerationRequest& request) {
    const auto id = engine.submit(request).value().id;
    return run_all(engine).of(id);
  };
  const CacheCounters& counters = engine.cache().counters();
  CHECK((Bits::of(run(a)) == want_a));
  for (int i = 0; i < 2; ++i) {
    INFO("round " << i);
    CHECK((Bits::of(run(b)) == want_b));
    const std::int64_t promoted = counters.promoted;
    const GenerationResult again = run(a);
    CHECK((Bits::of(again) == want_a));
    CHECK(counters.promoted - promoted >= full_blocks);
    CHECK(again.metrics.cached_tokens >= full_blocks * block_size);
  }
  CHECK((Bits::of(run(a)) == want_a));
  CHECK(counters.failed_loads == 0);
  engine.cache().allocator().check_invariants();
  CHECK(engine.cache().allocator().capacity().used == 0);
}

TEST_CASE("engine.page_cache.without_sharing_every_position_is_computed", "[engine]") {
  const TinyFile file(every_switch());
  const auto want = lonely_answers(file, "cpu", "f16");
  const auto model = file.load(config_of("cpu", "f16", 16));
  const Counters counters = check_answers(*model, {.share_prefixes = false, .on_new_page = poison}, want, {});
  CHECK(counters.copies == 0);
  CHECK(counters.evictions == 0);
  CHECK(counters.window_released > 0);
}

TEST_CASE("engine.page_cache.tables_of_window_layers_outgrow_the_pool", "[engine]") {
  TinyModel shape = every_switch();
  shape.window_pattern = shape.num_layers + 1;  // no layer sees everything
  const TinyFile file(shape);
  const auto roomy = file.load(config_of("cpu", "f16", 0));
  REQUIRE(roomy->cache_groups().window_tokens == std::vector<std::int64_t>{11});
  const auto want = lonely_answers(file, "cpu", "f16");
  const auto model = file.load(config_of("cpu", "f16", 4));
  const Counters counters = check_answers(*model, {.host_tier_bytes = 8 * model->page_bytes(), .on_new_page = poison}, want, {});
  CHECK(counters.window_released > 0);
  CHECK(counters.evictions > 0);
}

}  // namespace kvpage_test
