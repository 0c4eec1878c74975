// Problems of attention's backward pass: checks that concern several fields.

#include "templates/attention/modification.h"
#include "templates/attention/op.h"
#include "templates/attention_backward/op.h"
#include "tunesmith/error.h"

namespace tunesmith {

namespace attention_backward {

Settings Settings::of(const AttentionBackwardProblem& p) {
  Settings s;
  s.forward = attention::Settings::of(p);
  for (const GradientTensor& gradient : gradient_tensors)
    s.*gradient.tensor = s.forward.tensor_like(gradient.side, p.*gradient.strides, p.*gradient.alignment);
  s.dlse = p.dlse;
  s.dsinks = p.dsinks;
  s.dslopes = p.dslopes;
  s.deterministic = p.deterministic;
  s.accumulate = p.accumulate;
  s.score_mod_grad = p.score_mod_grad;
  return s;
}

}  // namespace attention_backward

using namespace attention_backward;

std::string_view summary_of(const AttentionBackwardProblem&) noexcept {
  return "dq, dk and dv of attention from dout, the gradient of o; also gradients of sinks and ALiBi slopes";
}

void complete(AttentionBackwardProblem& p) {
  complete(static_cast<AttentionProblem&>(p));
  const Settings settings = Settings::of(p);
  if (!p.score_mod_grad.empty()) {
    if (p.score_mod.empty())
      throw Error(ErrorCode::invalid_argument,
                  "score_mod_grad is given, but there is no score_mod that it is the derivative of");
    attention::check_score_mod_grad(p.score_mod_grad);
  } else if (!p.score_mod.empty()) {
    attention::check_differentiable(settings.forward);
  }
  for (const GradientTensor& gradient : gradient_tensors)
    if (gradient.tensor != &Settings::dout)
      attention::check_apart(settings.forward, gradient.side, settings.*gradient.tensor, gradient.name);
}

void adopt(const AttentionBackwardProblem& problem, const AttentionBackwardArrays& arrays) {
  check_aux_given(problem, arrays.aux);
}

}  // namespace tunesmith
