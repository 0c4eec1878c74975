#pragma once
// Times of the phases of preparing a plan.

#include <chrono>

namespace tunesmith {

/// Milliseconds on the preparing thread. A phase that did not run is 0.
struct Phases {
  double select_ms = 0;         ///< looking for a tuning record; opens the cache files if nothing did before
  double tune_ms = 0;           ///< searching, with everything that it compiles and stores
  double digest_ms = 0;         ///< the binary's key, with finding (not opening) the compiler
  double lookup_ms = 0;         ///< reading the binary from the cache
  double render_ms = 0;         ///< generating the source
  double open_compiler_ms = 0;  ///< loading NVRTC
  double compile_ms = 0;
  double store_ms = 0;  ///< writing the binary to the cache
  double load_ms = 0;   ///< onto the device
  double bind_ms = 0;   ///< occupancy, kernel attributes, tensor maps

  Phases& operator+=(const Phases& other);
};

/// Calls `visit(name, member)` for each phase in the order above: "select", "tune", ...
template <typename Visit>
constexpr void for_each_phase(const Visit& visit) {
  visit("select", &Phases::select_ms);
  visit("tune", &Phases::tune_ms);
  visit("digest", &Phases::digest_ms);
  visit("lookup", &Phases::lookup_ms);
  visit("render", &Phases::render_ms);
  visit("open compiler", &Phases::open_compiler_ms);
  visit("compile", &Phases::compile_ms);
  visit("store", &Phases::store_ms);
  visit("load", &Phases::load_ms);
  visit("bind", &Phases::bind_ms);
}

inline Phases& Phases::operator+=(const Phases& other) {
  for_each_phase([&](const char*, double Phases::*phase) { this->*phase += other.*phase; });
  return *this;
}

/// Adds the time from its construction to its destruction to a phase.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& phase_ms) : phase_ms_(phase_ms) {}
  ~PhaseTimer() {
    phase_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& phase_ms_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tunesmith
