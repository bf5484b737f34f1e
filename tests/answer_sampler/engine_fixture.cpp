#include "answer_sampler/engine_fixture.hpp"

#include "engine/engine.hpp"

namespace kvpage_test {
namespace {

struct CountingEnv {
  std::int64_t time_ns = 0;
  std::uint64_t seed = 1'000;
  std::int64_t now_ns() { return ++time_ns; }
  std::uint64_t draw_seed() { return ++seed; }
  std::pmr::memory_resource* memory() const { return std::pmr::get_default_resource(); }
};

}  // namespace

struct EngineFixture::Impl {
  CountingEnv env{};
  Ids end_tokens;
  kvpage::engine::Engine<kvpage::SchedulerPolicies<>, CountingEnv> engine;

  Impl(TableModel& model, Ids ends, const kvpage::engine::Tokenizer* tokenizer)
      : end_tokens(std::move(ends)),
        engine(model, {.limits = {.budget_tokens = 0, .max_seqs = 160, .context_limit = 0}}, {}, env, end_tokens, tokenizer) {}
};

EngineFixture::EngineFixture(const TableModelConfig& config, LogitsOf logits_of, Ids end_tokens, const kvpage::engine::Tokenizer* tokenizer)
    : model(config, std::move(logits_of)), impl_(std::make_unique<Impl>(model, std::move(end_tokens), tokenizer)) {}
EngineFixture::~EngineFixture() = default;

RequestId EngineFixture::submit(const GenerationRequest& request) {
  const auto ticket = impl_->engine.submit(request);
  if (!ticket) FAIL(kvpage::describe(ticket.error()));
  return ticket->id;
}

kvpage::Refusal EngineFixture::refusal(const GenerationRequest& request) {
  const auto ticket = impl_->engine.submit(request);
  REQUIRE(!ticket.has_value());
  return ticket.error();
}

void EngineFixture::step() {
  const kvpage::engine::StepOutput& output = impl_->engine.step();
  last_status = output.status;
  for (const auto& token : output.tokens) {
    Stream& shown = streams[{token.request.value, token.answer}];
    shown.ids.push_back(token.token);
    shown.text += token.text;
    shown.logprobs.insert(shown.logprobs.end(), token.logprobs.begin(), token.logprobs.end());
  }
  for (const auto& result : output.finished) results[result.request.value] = result;
}

void EngineFixture::run() {
  for (int steps = 0; num_requests() > 0; ++steps) {
    REQUIRE(steps < 100'000);
    step();
  }
  step();  // hands out what ended between two steps
}

bool EngineFixture::cancel(RequestId id) { return impl_->engine.cancel(id); }
std::int64_t EngineFixture::preempt(RequestId id) { return impl_->engine.preempt(id); }
void EngineFixture::on_plan(std::function<void(const kvpage::BatchPlan&)> observer) { impl_->engine.on_plan(std::move(observer)); }
std::int64_t EngineFixture::num_requests() const { return impl_->engine.num_requests(); }
std::int64_t EngineFixture::num_preemptions() const { return impl_->engine.stats().preempted_recompute; }

const std::vector<Answer>& EngineFixture::generate(const GenerationRequest& request) {
  const RequestId id = submit(request);
  run();
  return answers(id);
}

}  // namespace kvpage_test
