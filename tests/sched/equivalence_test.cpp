// The equivalence law, exhaustively on the toy model: every chunk size x prefix hit x preemption point gives the text and the logits
// of the one-shot run.
#include "sched/sched_fixture.hpp"

#include "support/environment.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

constexpr std::int64_t kNewTokens = 8;
constexpr std::int64_t kBlock = 4;
constexpr std::int64_t kBlocks = 32;

Tokens prompt_of(std::int64_t length) {
  Tokens prompt;
  for (std::int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>((i * i + 3 * i + 1) % 91));
  return prompt;
}

/// Runs of one prompt length and chunk size, on one scheduler. With a tier, whatever the pool has cached lies there instead.
class EquivalenceRuns {
 public:
  EquivalenceRuns(std::int64_t length, std::int64_t chunk, std::int64_t tier_slots)
      : f_({.num_blocks = kBlocks, .block_size = kBlock, .max_seqs = 2},
           {.budget_tokens = 64, .max_seqs = 1, .max_chunk_tokens = chunk}, {}, {}, tier_slots),
        prompt_(prompt_of(length)) {
    text_ = toy_text(f_.cache.config(), {.prompt = prompt_, .max_new_tokens = kNewTokens}, 0, f_.kVocab, &logits_);
  }

  /// True when the run said what the one-shot run says, and did what it was to do.
  bool run(std::int64_t hit, std::int64_t preempt_point) {
    if (!f_.cache.reset(CacheReset::kIfIdle) || (f_.tier && !f_.tier->tier.clear())) return false;
    put_prefix(hit);
    move_to_tier();
    f_.env.events.clear();
    const std::uint64_t id = ++last_id_;
    if (!f_.submit(id, prompt_, kNewTokens)) return false;
    const std::int64_t preempted_before = num_preempted();
    bool right = true;
    std::int64_t cached = -1;
    bool preempted = false;
    while (f_.scheduler.num_requests() > 0 && right) {
      right = step();
      const Request* request = f_.scheduler.find(RequestId{id});
      if (request == nullptr) break;
      if (cached < 0) cached = request->cached_tokens;
      if (preempted || request->num_computed < preempt_point) continue;
      preempted = f_.scheduler.preempt(RequestId{id}) == 1;
      move_to_tier();
    }
    const auto length = static_cast<std::int64_t>(prompt_.size());
    const bool reachable = preempt_point < length + kNewTokens - 1;
    const std::int64_t found = f_.tier ? hit / kBlock * kBlock : hit;
    return right && cached == found && num_preempted() - preempted_before == (reachable ? 1 : 0) &&
           f_.text(id) == text_ && f_.cache.capacity().used == 0;
  }

  [[nodiscard]] const SchedulerStats& stats() const { return f_.scheduler.stats(); }

 private:
  [[nodiscard]] std::int64_t num_preempted() const { return stats().preempted_recompute + stats().preempted_demote; }

  bool step() {
    f_.batch = &f_.scheduler.plan();
    if (!validate(*f_.batch, kBlock) || f_.batch->is_empty()) return false;
    f_.seal();
    f_.run_transfers();
    const auto logits = f_.toy.run(*f_.batch);
    f_.results.clear();
    for (const PlannedSample& sample : f_.batch->samples) {
      const std::uint64_t own = logits[static_cast<std::size_t>(sample.logit_index)];
      if (own != logits_[static_cast<std::size_t>(sample.position) - prompt_.size()]) return false;
      f_.results.push_back({.token = toy::draw(own, sample, f_.kVocab)});
    }
    f_.scheduler.commit(f_.results, f_.outcomes);
    return true;
  }

  /// Someone computed and published the first `count` tokens before.
  void put_prefix(std::int64_t count) {
    auto txn = f_.cache.begin();
    const SeqId seq = txn->create().value();
    txn->grow(seq, count).value();
    const StepId id = txn->seal().value();
    const BlockTable table = f_.cache.table(seq);
    for (std::int64_t p = 0; p < count; ++p) {
      f_.toy.write(table.blocks[static_cast<std::size_t>(p / kBlock)], p % kBlock,
                   toy::slot_of(prompt_[static_cast<std::size_t>(p)], p, NamespaceId{}));
    }
    f_.cache.commit(id).value();
    const auto tokens = std::span<const TokenId>{prompt_}.first(static_cast<std::size_t>(count));
    f_.cache.publish(seq, {.tokens = tokens, .partial_tail = true}).value();
    auto end = f_.cache.begin();
    end->release(seq).value();
    end->commit().value();
  }

  /// Someone else takes every block: what is cached in them is saved.
  void move_to_tier() {
    if (!f_.tier) return;
    auto txn = f_.cache.begin();
    const SeqId seq = txn->create().value();
    txn->grow(seq, kBlocks * kBlock).value();
    demote_victims(f_.tier->tier, *txn, [&](BlockId block, std::uint32_t slot) { f_.tier->tier.demote(slot, f_.toy.page(block)).value(); });
    f_.cache.commit(txn->seal().value()).value();
    for (std::uint32_t block = 0; block < kBlocks; ++block) f_.toy.poison(BlockId{block});
    auto end = f_.cache.begin();
    end->release(seq).value();
    end->commit().value();
  }

  SchedFixture f_;
  Tokens prompt_;
  Tokens text_;
  std::vector<std::uint64_t> logits_;
  std::uint64_t last_id_ = 0;
};

/// All (chunk, hit, preemption point) of the lengths up to `longest`; returns the number of runs, and of pages that were loaded.
std::pair<std::int64_t, std::int64_t> run_lengths(std::int64_t longest, std::int64_t tier_slots) {
  std::int64_t runs = 0;
  std::int64_t loaded = 0;
  for (std::int64_t length = 1; length <= longest; ++length) {
    for (std::int64_t chunk = 1; chunk <= length; ++chunk) {
      EquivalenceRuns law{length, chunk, tier_slots};
      for (std::int64_t hit = 0; hit < length; ++hit) {
        for (std::int64_t point = 0; point <= length + 7; ++point, ++runs) {
          INFO("length " << length << " chunk " << chunk << " hit " << hit << " preempted at " << point);
          if (!law.run(hit, point)) FAIL("differs from the one-shot run");
        }
      }
      loaded += law.stats().promoted;
    }
  }
  return {runs, loaded};
}

/// Two requests whose prompts share a start, the second one some steps later, and the blocks of one of them are taken at some point.
class PairRuns {
 public:
  PairRuns(std::int64_t length, std::int64_t chunk, std::int64_t shared)
      : f_({.num_blocks = kBlocks, .block_size = kBlock, .max_seqs = 4}, {.budget_tokens = 64, .max_seqs = 2, .max_chunk_tokens = chunk}) {
    for (std::size_t i = 0; i < 2; ++i) {
      prompts_[i] = prompt_of(length);
      for (std::int64_t p = i == 0 ? length : shared; p < length; ++p) prompts_[i][static_cast<std::size_t>(p)] += 1;
      prompts_[i].push_back(static_cast<TokenId>(i));  // so that no prompt is a part of the other
      texts_[i] = f_.expected(prompts_[i], kNewTokens);
    }
  }

  /// True when both said what they say alone. `taken`: which one loses its blocks when it has `point` computed tokens.
  bool run(std::int64_t late_steps, std::size_t taken, std::int64_t point) {
    if (!f_.cache.reset(CacheReset::kIfIdle)) return false;
    f_.env.events.clear();
    const std::uint64_t first = last_id_ + 1;
    last_id_ += 2;
    bool was_taken = false;
    for (std::int64_t step = 0; step == 0 || f_.scheduler.num_requests() > 0 || step <= late_steps; ++step) {
      if (step == 0 && !f_.submit(first, prompts_[0], kNewTokens)) return false;
      if (step == late_steps && !f_.submit(first + 1, prompts_[1], kNewTokens)) return false;
      if (f_.scheduler.num_requests() > 0 && !f_.step()) return false;
      const Request* request = f_.scheduler.find(RequestId{first + taken});
      if (request == nullptr || was_taken || request->num_computed < point) continue;
      was_taken = f_.scheduler.preempt(RequestId{first + taken}) == 1;
      num_taken += was_taken ? 1 : 0;
    }
    return f_.text(first) == texts_[0] && f_.text(first + 1) == texts_[1] && f_.cache.capacity().used == 0;
  }

  std::int64_t num_taken = 0;
  [[nodiscard]] std::int64_t cached_tokens() const { return f_.scheduler.stats().cached_tokens; }

 private:
  SchedFixture f_;
  Tokens prompts_[2];
  Tokens texts_[2];
  std::uint64_t last_id_ = 0;
};

}  // namespace

TEST_CASE("sched.equivalence.two_sequences_every_chunk_share_distance_and_preemption_point", "[sched]") {
  std::int64_t runs = 0, taken = 0, hits = 0;
  for (std::int64_t length = 2; length <= 10; ++length) {
    for (std::int64_t chunk = 1; chunk <= length; ++chunk) {
      for (std::int64_t shared = 0; shared <= length; ++shared) {
        PairRuns law{length, chunk, shared};
        for (std::int64_t late = 0; late <= 4; ++late) {
          for (std::int64_t point = 1; point <= length + kNewTokens; ++point, ++runs) {
            INFO("length " << length << " chunk " << chunk << " shared " << shared << " late by " << late << " taken at " << point);
            if (!law.run(late, static_cast<std::size_t>(point + late) % 2, point)) FAIL("differs from the run alone");
          }
        }
        taken += law.num_taken, hits += law.cached_tokens();
      }
    }
  }
  CHECK(taken > runs * 9 / 10);
  CHECK(hits > runs);
}

TEST_CASE("sched.equivalence.every_chunk_hit_and_preemption_point", "[sched]") {
#if defined(__SANITIZE_ADDRESS__)
  CHECK(run_lengths(10, 0).first == 5 * 5 * 11 * 11 + 8 * 385);
#else
  CHECK(run_lengths(40, 0).first == 849'520);
#endif
}

TEST_CASE("sched.equivalence.every_chunk_load_and_preemption_point", "[sched]") {
  const auto [runs, loaded] = run_lengths(16, 64);
  CHECK(runs == 8 * 8 * 17 * 17 + 8 * 1'496);
  CHECK(loaded > 2 * runs);
}
