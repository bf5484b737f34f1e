/// \file ProfileReport: what each operation of a model's steps took, beside what the machine could do.
#pragma once

#include "engine/backend/machine_ceilings.hpp"
#include "engine/backend/step_profile.hpp"
#include "engine/model/language_model.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace kvpage::cli {

/// Profiles a model's steps from its construction until it is asked for a report or dies. The model must outlive it.
class ProfileReport {
 public:
  explicit ProfileReport(engine::LanguageModel& model);
  ~ProfileReport();
  ProfileReport(const ProfileReport&) = delete;
  ProfileReport& operator=(const ProfileReport&) = delete;

  /// Tables for people. Stops profiling; the first report measures the machine's ceilings (half a second, 256 MB).
  std::string text();
  /// The same as JSON: {"ceilings": {..}, "prefill": {..}, "decode": {..}}, null for a phase without steps.
  nlohmann::json json();

 private:
  void finish();

  engine::LanguageModel& model_;
  engine::StepProfile profile_;
  engine::MachineCeilings ceilings_;
  bool is_finished_ = false;
};

}  // namespace kvpage::cli
