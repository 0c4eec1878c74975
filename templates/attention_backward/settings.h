#pragma once
// A complete problem of attention's backward pass as kernels need it. Internal to templates/.

#include "templates/attention/settings.h"
#include "tunesmith/attention_backward.h"

namespace tunesmith::attention_backward {

using attention::Side;
using attention::Tensor;

struct Settings {
  attention::Settings forward;
  Tensor dout, dq, dk, dv;  ///< of the shapes of o, q, k and v
  bool dlse = false, dsinks = false, dslopes = false, deterministic = false, accumulate = false;
  std::string score_mod_grad;  ///< user source; empty: score_mod is differentiated
  AttentionAuxGradients daux;  ///< in the order of forward.aux

  static Settings of(const AttentionBackwardProblem& problem);

  /// Rows of lse and delta.
  std::int64_t rows() const noexcept {
    return forward.heads * (forward.varlen ? forward.total_q : forward.batch * forward.seq_q);
  }
  /// Index of a query in lse; positions of packed sequences count through all of them.
  std::int64_t row(std::int64_t batch, std::int64_t head, std::int64_t position) const noexcept {
    return forward.varlen ? head * forward.total_q + position : (batch * forward.heads + head) * forward.seq_q + position;
  }
};

/// A tensor that only the backward pass has, and the side whose shape it has.
struct GradientTensor {
  const char* name;
  Side side;
  Tensor Settings::*tensor;
  AttentionArrayStrides AttentionBackwardProblem::*strides;
  std::int64_t AttentionBackwardProblem::*alignment;
};
inline constexpr std::array<GradientTensor, 4> gradient_tensors{
    {{"dout", Side::o, &Settings::dout, &AttentionBackwardProblem::dout_strides, &AttentionBackwardProblem::dout_alignment},
     {"dq", Side::q, &Settings::dq, &AttentionBackwardProblem::dq_strides, &AttentionBackwardProblem::dq_alignment},
     {"dk", Side::k, &Settings::dk, &AttentionBackwardProblem::dk_strides, &AttentionBackwardProblem::dk_alignment},
     {"dv", Side::v, &Settings::dv, &AttentionBackwardProblem::dv_strides, &AttentionBackwardProblem::dv_alignment}}};

}  // namespace tunesmith::attention_backward
