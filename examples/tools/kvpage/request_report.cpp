#include "tools/kvpage/request_report.hpp"

#include "tools/kvpage/loaded_model.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace kvpage::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const engine::RequestResult& r) {
  Json json{{"id", r.id}, {"prompt_tokens", r.prompt_tokens}};
  if (r.failure) {
    json["error"] = {{"kind", engine::name_of(r.failure->kind)}, {"message", r.failure->message}};
    if (r.failure->kind != engine::RequestFailure::Kind::kFailed) {
      json["error"]["need"] = r.failure->need;
      json["error"]["available"] = r.failure->available;
    }
    return json;
  }
  json.update({{"output_ids", r.output_ids}, {"finish_reason", engine::name_of(r.finish)}, {"cached_tokens", r.cached_tokens},
               {"positions_computed", r.positions_computed}, {"ttft_s", r.ttft_s}, {"decode_s", r.decode_s}, {"total_s", r.total_s}});
  return json;
}

/// Sums over requests; prompts count when they were answered.
struct Sums {
  std::int64_t failed = 0, prompt = 0, output = 0, cached = 0, computed = 0;

  explicit Sums(const std::vector<engine::RequestResult>& results) {
    for (const engine::RequestResult& r : results) {
      failed += r.failure ? 1 : 0;
      prompt += r.failure ? 0 : r.prompt_tokens;
      output += std::ssize(r.output_ids);
      cached += r.cached_tokens;
      computed += r.positions_computed;
    }
  }
};

double share(std::int64_t part, std::int64_t whole) { return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0; }

}  // namespace

bool RequestReport::interrupted() const {
  const auto cancelled = [](const engine::RequestResult& r) { return !r.failure && r.finish == FinishReason::kCancelled; };
  return not_run > 0 || std::any_of(results.begin(), results.end(), cancelled);
}

ExitCode RequestReport::exit_code() const {
  const auto failed = [](const engine::RequestResult& r) { return r.failure && r.failure->kind == engine::RequestFailure::Kind::kFailed; };
  return interrupted() || std::any_of(results.begin(), results.end(), failed) ? kExitRun : kExitOk;
}

void RequestReport::print_json() const {
  const Sums sums(results);
  const engine::CacheCounters& c = counters;
  Json requests = Json::array();
  for (const engine::RequestResult& result : results) requests.push_back(json_of(result));
  const Json totals{{"requests", results.size()}, {"failed", sums.failed}, {"interrupted", interrupted()}, {"not_run", not_run},
                    {"prompt_tokens", sums.prompt}, {"cached_tokens", sums.cached}, {"positions_computed", sums.computed},
                    {"output_tokens", sums.output}, {"steps", steps}, {"copies", c.copies}, {"evictions", c.evictions},
                    {"demoted", c.demoted}, {"promoted", c.promoted},
                    {"failed_loads", c.failed_loads}, {"window_released", c.window_released}, {"num_blocks", num_blocks},
                    {"peak_used_blocks", c.peak_used_blocks}, {"peak_utilisation", share(c.peak_used_blocks, num_blocks)},
                    {"wall_s", wall_s}};
  const engine::LanguageModel& m = *model.model;
  const Json all{{"model", m.spec().name}, {"kernels", options.model.kernels}, {"kv_type", m.kv_type()}, {"threads", m.num_threads()},
                 {"block_size", m.pool_shape().block_size}, {"cache_groups", m.cache_groups().num_groups()},
                 {"layers_per_page", m.cache_groups().layers_per_page}, {"page_bytes", m.page_bytes()},
                 {"prefix_cache", options.model.prefix_cache}, {"evict", options.evict}, {"host_tier_bytes", options.model.host_tier_bytes},
                 {"load_s", model.load_s}, {"requests", requests}, {"totals", totals}};
  std::printf("%s\n", all.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

void RequestReport::print_text() const {
  std::printf("%-16s %8s %8s %8s %8s %10s %10s %10s  %s\n", "id", "prompt", "cached", "computed", "output", "ttft s", "decode s", "total s",
              "end");
  for (const engine::RequestResult& r : results) {
    const std::string end = r.failure ? r.failure->message : std::string(engine::name_of(r.finish));
    std::printf("%-16s %8lld %8lld %8lld %8zu %10.4f %10.4f %10.4f  %s\n", r.id.c_str(), static_cast<long long>(r.prompt_tokens),
                static_cast<long long>(r.cached_tokens), static_cast<long long>(r.positions_computed), r.output_ids.size(), r.ttft_s,
                r.decode_s, r.total_s, end.c_str());
  }
  const Sums sums(results);
  const engine::CacheCounters& c = counters;
  std::printf("%zu requests, %lld failed; %lld of %lld prompt tokens cached; %lld steps in %.3f s\n", results.size(),
              static_cast<long long>(sums.failed), static_cast<long long>(sums.cached), static_cast<long long>(sums.prompt),
              static_cast<long long>(steps), wall_s);
  std::printf("pages: %lld of %lld used at most; %lld copied, %lld evicted, %lld demoted, %lld promoted, %lld failed to load, "
              "%lld released behind windows\n",
              static_cast<long long>(c.peak_used_blocks), static_cast<long long>(num_blocks), static_cast<long long>(c.copies),
              static_cast<long long>(c.evictions), static_cast<long long>(c.demoted), static_cast<long long>(c.promoted),
              static_cast<long long>(c.failed_loads), static_cast<long long>(c.window_released));
  if (interrupted()) std::printf("interrupted: %lld requests were not run\n", static_cast<long long>(not_run));
}

}  // namespace kvpage::cli
