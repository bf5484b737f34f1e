/// \file What a launch refuses, and that its scratch depends on the shape alone.
#include "support/catch.hpp"
#include "support/no_scale.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace kvpage;

namespace {

using KV = CpuKV<PlainKV<F32>>;

/// A valid launch of one sequence of 20 tokens, to be spoiled by tests.
struct Launch {
  Launch() : memory(pool_bytes<KV>(shape), std::byte{0}), q(4 * 16), out(q.size()), lse(4) {
    const KVPool<KV> pool(shape, memory.span());
    args.view = pool.view(0, {indptr, ids, kv_lens, 1});
    args.q = q.data();
    args.q_stride = args.out_stride = 64;
    args.num_tokens = 1;
    args.num_q_heads = 4;
    args.seqs = &seq;
    args.scale = 1.0f;
    args.out = out.data();
    args.lse = lse.data();
  }
  KVPoolShape shape{1, 2, 16, 16, 3};
  AlignedBytes memory;
  std::vector<float> q, out, lse;
  std::int64_t indptr[2] = {0, 2};
  BlockId ids[2] = {BlockId{2}, BlockId{0}};
  std::int64_t kv_lens[1] = {20};
  QuerySpan seq{0, 1, 19};
  PagedAttentionArgs<KV> args;
};

/// Gives a launch its scratch.
struct WithScratch {
  WithScratch(const Cpu& cpu, Launch& launch) {
    const auto bytes = static_cast<std::size_t>(paged_attention_scratch_bytes<KV>(cpu, launch.shape.dims(), 4));
    memory.resize(bytes + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    launch.args.scratch = std::span(memory).subspan((64 - address % 64) % 64, bytes);
  }
  std::vector<std::byte> memory;
};

template <class Spoil>
std::string refusal(Spoil&& spoil) {
  Launch launch;
  spoil(launch);
  const Status status = validate_launch(launch.args);
  return status.ok() ? "ok" : status.message();
}

constexpr const char* kHeads = "paged_attention: num_q_heads must be a multiple of num_kv_heads";

}  // namespace

TEST_CASE("bug.B34.heads_that_the_kv_heads_do_not_divide_are_refused", "[paged_attention]") {
  CHECK(refusal([](Launch& l) { l.args.num_q_heads = 33; }) == kHeads);
  CHECK(refusal([](Launch& l) { l.args.num_q_heads = 3; }) == kHeads);
}

TEST_CASE("paged_attention.launch.refuses_impossible_shapes", "[paged_attention]") {
  CHECK(refusal([](Launch&) {}) == "ok");
  CHECK(refusal([](Launch& l) { l.args.num_q_heads = 0; }) == kHeads);
  CHECK(refusal([](Launch& l) { l.args.q_stride = 63; }) == "paged_attention: q_stride is smaller than num_q_heads * head_dim");
  CHECK(refusal([](Launch& l) { l.args.out = nullptr; }) == "paged_attention: q, out or seqs is null");
  CHECK(refusal([](Launch& l) { l.args.window = -1; }) == "paged_attention: window is negative (0 = none)");
  CHECK(refusal([](Launch& l) { l.args.view.dims.head_dim = 0; }) == "KV view: head_dim must be positive");
  CHECK(refusal([](Launch& l) { l.args.view.dims.block_size = 0; }) == "KV view: block_size must be positive");
}

TEST_CASE("paged_attention.launch.refuses_what_is_no_scale", "[paged_attention]") {
  for (const float value : kvpage_test::kNoScale) {
    INFO(value);
    CHECK(refusal([=](Launch& l) { l.args.scale = value; }) == "paged_attention: scale must be finite and > 0");
    CHECK(refusal([=](Launch& l) { l.args.view.key_scale = value; }) == "KV view: key_scale must be finite and > 0");
    CHECK(refusal([=](Launch& l) { l.args.view.value_scale = value; }) == "KV view: value_scale must be finite and > 0");
    const char* const soft_cap = value == 0.0f ? "ok" : "paged_attention: softcap must be finite and >= 0";  // 0 = none
    CHECK(refusal([=](Launch& l) { l.args.softcap = value; }) == soft_cap);
  }
  CHECK(refusal([](Launch& l) { l.args.scale = std::numeric_limits<float>::min(); }) == "ok");
}

TEST_CASE("paged_attention.launch.refuses_bad_tables", "[paged_attention]") {
  CHECK(refusal([](Launch& l) { l.kv_lens[0] = 33; }) == "paged_attention: a kv length exceeds its block table");
  CHECK(refusal([](Launch& l) { l.kv_lens[0] = -1; }) == "paged_attention: a kv length is negative");
  CHECK(refusal([](Launch& l) { l.seq.q_begin = 1; }) == "paged_attention: a sequence's rows are outside num_tokens");
  CHECK(refusal([](Launch& l) { l.ids[1] = BlockId{3}; }) == "paged_attention: a visible page is outside the pool");
  CHECK(refusal([](Launch& l) { l.ids[0] = kNoBlock; }) == "paged_attention: a visible page is outside the pool");
  CHECK(refusal([](Launch& l) { l.ids[0] = kNoBlock, l.args.window = 4; }) == "ok");
}

TEST_CASE("paged_attention.launch.numbers_and_tables_are_checked_apart", "[paged_attention]") {
  Launch launch;
  launch.kv_lens[0] = 33, launch.seq.q_begin = 1, launch.ids[0] = launch.ids[1] = kNoBlock;
  CHECK(validate(launch.args).ok());
  CHECK_FALSE(validate_tables(launch.args).ok());
  launch.args.view.tables.num_seqs = 0;
  CHECK(validate_launch(launch.args).ok());
}

TEST_CASE("paged_attention.launch.refused_tables_write_nothing", "[paged_attention]") {
  for (int fault = 0; fault < 3; ++fault) {
    CAPTURE(fault);
    Launch launch;
    Cpu cpu({.num_threads = 2});
    const WithScratch scratch(cpu, launch);
    std::vector<std::uint64_t> plan(100, 7);
    const auto plan_before = plan;
    launch.out.assign(launch.out.size(), 5.0f);
    if (fault == 0) launch.kv_lens[0] = 33;
    if (fault == 1) launch.seq.q_begin = 1;
    if (fault == 2) launch.ids[1] = BlockId{3};
    CHECK(paged_attention(cpu, launch.args).code() == StatusCode::kInvalidArgument);
    CHECK(reference::paged_attention(launch.args).code() == StatusCode::kInvalidArgument);
    CHECK(plan_paged_attention(launch.args, std::as_writable_bytes(std::span(plan))).code() == StatusCode::kInvalidArgument);
    for (const float x : launch.out) CHECK(x == 5.0f);
    CHECK(plan == plan_before);
  }
}

TEST_CASE("paged_attention.launch.a_plan_of_other_launches_is_refused", "[paged_attention]") {
  Launch planned;
  Cpu cpu({.num_threads = 2});
  std::vector<std::uint64_t> memory(static_cast<std::size_t>(paged_attention_plan_bytes(1) / 8));
  const auto bytes = std::as_writable_bytes(std::span(memory));
  REQUIRE(plan_paged_attention(planned.args, bytes).ok());
  const auto refused = [&](auto&& spoil, std::span<const std::byte> plan) {
    Launch launch;
    const WithScratch scratch(cpu, launch);
    launch.out.assign(launch.out.size(), 5.0f);
    spoil(launch);
    const Status status = paged_attention(cpu, launch.args, plan);
    const bool written = launch.out != std::vector<float>(launch.out.size(), 5.0f);
    CHECK(written == status.ok());
    return std::string(status.message());
  };
  CHECK(refused([](Launch&) {}, bytes) == "ok");
  CHECK(refused([](Launch& l) { l.args.num_tokens = 2; }, bytes) == "paged_attention: the plan has another num_tokens");
  CHECK(refused([](Launch& l) { l.args.num_q_heads = 2; }, bytes) == "paged_attention: the plan has another num_q_heads");
  CHECK(refused([](Launch& l) { l.args.view.dims.num_kv_heads = 1; }, bytes) == "paged_attention: the plan has another num_kv_heads");
  CHECK(refused([](Launch& l) { l.args.view.dims.block_size = 32; }, bytes) == "paged_attention: the plan has another block_size");
  CHECK(refused([](Launch& l) { l.args.window = 4; }, bytes) == "paged_attention: the plan has another window");
  const char* const small = "paged_attention: the plan is smaller than paged_attention_plan_bytes()";
  CHECK(refused([](Launch&) {}, bytes.first(bytes.size() - 1)) == small);
  CHECK(refused([](Launch&) {}, {}) == small);
  std::vector<std::uint64_t> larger(memory.size() + 1);
  const auto askew = std::as_writable_bytes(std::span(larger)).subspan(1);
  CHECK(refused([](Launch&) {}, askew) == "paged_attention: the plan must be 8-byte aligned");
  CHECK(std::string(plan_paged_attention(planned.args, askew).message()) == "paged_attention: the plan must be 8-byte aligned");
  CHECK(std::string(plan_paged_attention(planned.args, bytes.first(8)).message()) == small);
  CHECK(refused([](Launch&) {}, askew.subspan(7)) == "paged_attention: the plan has another num_seqs");  // never written
}

TEST_CASE("paged_attention.launch.refused_launches_write_nothing", "[paged_attention]") {
  Launch launch;
  Cpu cpu({.num_threads = 2});
  launch.out.assign(launch.out.size(), 5.0f);
  const Status status = paged_attention(cpu, launch.args);
  CHECK(status.code() == StatusCode::kCapacity);
  CHECK(status.value() == paged_attention_scratch_bytes<KV>(cpu, launch.shape.dims(), 4));
  for (const float x : launch.out) CHECK(x == 5.0f);
}
