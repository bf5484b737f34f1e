/// \file SimStep: one step of a simulated world, with the faults that can meet it.
#pragma once

#include "tools/simulator/sim_transfers.hpp"
#include "tools/simulator/sim_turns.hpp"

KVPAGE_BEGIN_NAMESPACE

/// Plans, checks, seals, runs and commits, or what the action's fault makes of it.
class SimStep {
 public:
  explicit SimStep(SimWorld& world) : world_(world), transfers_(world), turns_(world) {}

  [[nodiscard]] std::int64_t sealed_steps() const noexcept { return sealed_steps_; }
  /// True while the sealed step's transfers are still to come.
  [[nodiscard]] bool transfers_pending() const noexcept { return transfers_pending_; }

  void run(const SimAction& action) {
    run(action, [] {});
  }

  /// `while_sealed` happens between seal and commit.
  template <class Fn>
  void run(const SimAction& action, Fn&& while_sealed) {
    const SimKind kind = action.kind;
    if (kind == SimKind::kRefuse) {
      world_.count_all(kind);
      world_.cache.refuse_after(static_cast<std::int64_t>(action.b % 12));
    }
    if (kind == SimKind::kCancel && action.a % 4 == 0) cancel(action.b);
    const std::int64_t refused = world_.cache.num_refused();
    const BatchPlan& batch = world_.scheduler.plan();
    check_plan(batch, world_.cache.num_refused() != refused);
    if (kind == SimKind::kCancel && action.a % 4 == 1) cancel(action.b);
    if (batch.is_empty() || kind == SimKind::kDrop) {
      if (kind == SimKind::kDrop) world_.count_all(kind);
      world_.scheduler.drop();
      world_.cache.refuse_after(-1);
      world_.env.time_ns += 100'000;
      return;
    }
    world_.taken.clear();
    if (!world_.scheduler.seal()) {
      world_.book.check(false, "a plan can be sealed");
      return;
    }
    ++sealed_steps_;
    turns_.begin();
    if (!batch.demotions.empty()) check_valid(batch);
    const bool transfers_first = kind != SimKind::kAbort && kind != SimKind::kException && action.a % 16 >= 8;
    if (transfers_first) transfers_.run(batch, action, batch.promotions.size());
    transfers_pending_ = !transfers_first && batch.promotions.size() + batch.demotions.size() > 0;
    if ((kind == SimKind::kCancel && action.a % 4 >= 2) || (kind > SimKind::kCancel && action.a % 4 == 0)) {
      cancel(action.b);
      if (action.a % 8 == 3) cancel(action.b);
    }
    while_sealed();
    if (!transfers_first) run_transfers(batch, action);
    transfers_pending_ = false;
    world_.env.time_ns += step_ns(batch);
    finish(batch, action);
    world_.cache.refuse_after(-1);
    if (sealed_steps_ % 16 == 0) world_.cache.check_invariants();
  }

 private:
  [[nodiscard]] static std::int64_t step_ns(const BatchPlan& batch) {
    std::int64_t kv = 0;
    for (const std::int64_t length : batch.kv_lens) kv += length;
    return 2'000'000 + 200'000 * batch.num_tokens() + 1'000 * kv;
  }

  /// All transfers of the step, or as many as there are before it fails.
  void run_transfers(const BatchPlan& batch, const SimAction& action) {
    if (action.kind == SimKind::kAbort) {
      transfers_.skip();
    } else {
      const std::size_t count = batch.promotions.size();
      transfers_.run(batch, action, action.kind == SimKind::kException ? action.b / 64 % (count + 1) : count);
    }
  }

  void finish(const BatchPlan& batch, const SimAction& action) {
    switch (action.kind) {
      case SimKind::kAbort:
        world_.count_all(action.kind);
        abort();
        return;
      case SimKind::kException:
        world_.count_all(action.kind);
        if (transfers_.outcomes().size() == batch.promotions.size()) {
          world_.model.run_partly(batch, static_cast<std::int64_t>(action.b % static_cast<std::uint64_t>(batch.num_tokens() + 1)));
        }
        abort();
        return;
      case SimKind::kLost:
        world_.count_all(action.kind);
        static_cast<void>(world_.model.run(batch));
        abort();
        return;
      case SimKind::kLate:
        world_.env.time_ns += static_cast<std::int64_t>(action.b % 100) * 10'000'000;
        world_.count_all(action.kind);
        break;
      default: break;
    }
    commit(batch, action);
  }

  void abort() {
    for (SimRequest& r : world_.book.requests) {
      for (SimAnswer& answer : r.answers) answer.expects_token = false;
    }
    static_cast<void>(world_.scheduler.abort(std::ssize(transfers_.outcomes())).ok());
  }

  void cancel(std::uint64_t word) {
    if (world_.book.requests.empty()) return;
    const RequestId id = world_.pick(word);
    SimRequest& r = world_.book.requests[id.value];
    const bool in_flight = !r.answers.empty() && !r.over;
    for (std::uint32_t child = 0; child < std::max<std::size_t>(1, r.answers.size()); ++child) {
      const Request* answer = world_.scheduler.find(id, child);
      if (answer != nullptr || !in_flight) world_.count(SimKind::kCancel, answer);
    }
    r.cancelled = r.cancelled || in_flight;
    world_.book.check(world_.scheduler.cancel(id) == in_flight, "cancel says whether the request was in flight",
                      static_cast<std::int64_t>(id.value));
  }

  void check_valid(const BatchPlan& batch) {
    const auto valid = validate(batch, world_.cache.config().block_size);
    if (!valid) world_.book.check(false, valid.error().rule, valid.error().index);
  }

  void check_plan(const BatchPlan& batch, bool refused) {
    SimBook& book = world_.book;
    check_valid(batch);
    book.check(batch.num_tokens() <= world_.config.limits.budget_tokens, "a plan stays within its token budget");
    book.check(batch.num_seqs() + std::ssize(batch.loading) <= world_.config.limits.max_seqs, "a plan stays within max_seqs");
    book.check(refused || world_.scheduler.num_requests() == 0 || world_.scheduler.leader_advanced(), "every step advances the leader");
    for (std::size_t s = 0; s < batch.sequences.size(); ++s) check_sequence(batch, s);
    for (const PlannedOwner& owner : batch.loading) check_loading(batch, owner);
    turns_.look(batch, refused);
  }

  void check_loading(const BatchPlan& batch, const PlannedOwner& loader) {
    const auto id = static_cast<std::int64_t>(loader.request.value);
    world_.book.check(world_.scheduler.find(loader.request, loader.child) != nullptr, "a plan loads for nobody who has ended", id);
    const bool has_rows = std::any_of(batch.owners.begin(), batch.owners.end(), [&](const PlannedOwner& o) { return o.seq == loader.seq; });
    world_.book.check(!has_rows, "a request that loads takes no rows", id);
  }

  void check_sequence(const BatchPlan& batch, std::size_t s) {
    SimBook& book = world_.book;
    const auto id = static_cast<std::int64_t>(batch.owners[s].request.value);
    const Request* request = world_.scheduler.find(batch.owners[s].request, batch.owners[s].child);
    book.check(request != nullptr, "a plan names nobody who has ended", id);
    if (request == nullptr) return;
    book.check(world_.cache.alive(batch.owners[s].seq), "a planned sequence is alive", id);
    book.check(request->bypassed <= world_.config.limits.max_bypasses, "nobody is overtaken more often than max_bypasses", id);
    const QuerySpan& span = batch.sequences[s];
    for (const PlannedGroup& group : batch.groups) {
      for (std::int64_t i = group.indptr[s]; i < group.indptr[s + 1]; ++i) {
        const BlockId block = group.block_ids[static_cast<std::size_t>(i)];
        book.check(block == kNoBlock || world_.cache.ref_count(block) >= 1, "a planned block is held", id);
      }
      for (std::int64_t row = span.q_begin; row < span.q_begin + span.q_count; ++row) {
        const KVSlot slot = group.write_slots[static_cast<std::size_t>(row)];
        book.check(slot == kNoSlot || holders(batch, slot.block) == 1, "a block that is written has one holder", id);
      }
    }
  }

  /// Copies read a block before anything is written: they do not count.
  [[nodiscard]] std::int64_t holders(const BatchPlan& batch, BlockId block) const {
    std::int64_t count = world_.cache.ref_count(block);
    for (const CopyOp& copy : batch.copies) count -= copy.source == block ? 1 : 0;
    return count;
  }

  void commit(const BatchPlan& batch, const SimAction& action) {
    const auto logits = world_.model.run(batch);
    std::vector<SampleResult>& results = world_.results;
    results.clear();
    for (std::size_t i = 0; i < batch.samples.size();) {
      std::size_t count = 1;  // samples of one request's answers that are drawn together
      while (i + count < batch.samples.size() && batch.samples[i + count].request == batch.samples[i].request) ++count;
      for (std::size_t c = i; c < i + count; ++c) results.push_back(sample(batch, logits, {i, count}, c));
      stop_beam(batch, {i, count});
      i += count;
    }
    if (action.kind == SimKind::kBadRow && !results.empty()) spoil(batch, action.b % results.size());
    world_.scheduler.commit(results, transfers_.outcomes());
  }

  struct Group {
    std::size_t first;
    std::size_t count;
  };

  /// Draws one token, after checking that the logits are those of the answer alone.
  SampleResult sample(const BatchPlan& batch, std::span<const std::uint64_t> logits, Group group, std::size_t at) {
    const PlannedSample& planned = batch.samples[at];
    SimRequest& r = world_.book.requests[planned.request.value];
    SimAnswer& answer = r.answers[planned.child];
    const std::uint64_t own = logits[static_cast<std::size_t>(planned.logit_index)];
    world_.book.check(own == answer.context.logits(), "logits are those of the answer alone with unlimited memory",
                      static_cast<std::int64_t>(planned.request.value));
    const bool right_draw = planned.position == answer.context.num_tokens() && planned.seed == r.ticket.seed;
    world_.book.check(right_draw, "a draw has the position and the seed of its answer", static_cast<std::int64_t>(planned.request.value));
    SampleResult result{.token = toy::draw(own, planned, SimBook::kVocab)};
    SimAnswer* source = &answer;
    if (r.spec.beam && r.spec.num_samples > 1 && planned.position > static_cast<std::int64_t>(r.prompt.size())) {
      std::uint64_t mixed = at;
      for (std::size_t c = group.first; c < group.first + group.count; ++c) {
        mixed = toy::fold(mixed, logits[static_cast<std::size_t>(batch.samples[c].logit_index)]);
      }
      world_.book.check(group.count == r.answers.size(), "a beam runs in lockstep", static_cast<std::int64_t>(planned.request.value));
      result.source = static_cast<std::uint32_t>(mixed % r.answers.size());
      source = &r.answers[result.source];
    }
    answer.next = source->context;
    answer.next.append(result.token);
    answer.next_token = result.token;
    answer.expects_token = true;
    const bool plain = !r.spec.beam || r.spec.num_samples == 1;
    const bool stop_token = plain && std::find(r.stop_tokens.begin(), r.stop_tokens.end(), result.token) != r.stop_tokens.end();
    result.stop = world_.config.features.caller_stops && toy::fold(own, planned.child) % kMeanTextToStop == 0;
    answer.stop_asked = stop_token || result.stop;
    return result;
  }

  /// Tokens between two that the caller's own rule stops at, on average.
  static constexpr std::uint64_t kMeanTextToStop = 24;

  /// A beam ends as a whole, with the step that stops one of its answers.
  void stop_beam(const BatchPlan& batch, Group group) {
    SimRequest& r = world_.book.requests[batch.samples[group.first].request.value];
    if (!r.spec.beam || r.spec.num_samples == 1) return;
    const std::span<const SampleResult> drawn = std::span{world_.results}.subspan(group.first, group.count);
    const bool stops = std::any_of(drawn.begin(), drawn.end(), [](const SampleResult& result) { return result.stop; });
    for (SimAnswer& answer : r.answers) answer.stop_asked = stops;
  }

  void spoil(const BatchPlan& batch, std::size_t at) {
    // A row of a request that was cancelled meanwhile is spoiled with preference.
    for (std::size_t i = 0; i < batch.samples.size(); ++i) {
      const Request* answer = world_.scheduler.find(batch.samples[i].request, batch.samples[i].child);
      if (answer != nullptr && answer->state == RequestState::kFinishing) at = i;
    }
    const PlannedSample& planned = batch.samples[at];
    SimRequest& r = world_.book.requests[planned.request.value];
    world_.count(SimKind::kBadRow, world_.scheduler.find(planned.request, planned.child));
    world_.results[at].status = SampleStatus::kError;
    r.answers[planned.child].bad_row = r.bad_row = true;
  }

  SimWorld& world_;
  SimTransfers transfers_;
  SimTurns turns_;
  std::int64_t sealed_steps_ = 0;
  bool transfers_pending_ = false;
};

KVPAGE_END_NAMESPACE
