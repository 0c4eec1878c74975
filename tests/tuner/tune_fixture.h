#pragma once
// Complete tuning runs with a scripted device.

#include "tests/tuner/fakes.h"

namespace tunesmith {

class Tune : public fakes::TunerTest {
 protected:
  Tune() {
    options.jobs = 2;
    options.budget_s = 60;
  }
  TuneResult tune_now() { return tune(*op.parse(problem), bench(), options); }
  void add_widths(int up_to) {
    for (int width = op.widths.back() + 1; width <= up_to; ++width) op.widths.push_back(width);
  }
  TuneOptions options;
};

}  // namespace tunesmith
