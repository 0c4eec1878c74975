// Problems of attention's backward pass: checks that concern several fields.

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
  return s;
}

}  // namespace attention_backward

using namespace attention_backward;

std::string_view summary_of(const AttentionBackwardProblem&) noexcept {
  return "dq, dk and dv of attention from dout, the gradient of o; also gradients of sinks and ALiBi slopes";
}

void complete(AttentionBackwardProblem& p) {
  complete(static_cast<AttentionProblem&>(p));
  if (!p.score_mod.empty())
    throw Error(ErrorCode::unsupported,
                "attention_backward cannot differentiate score_mod yet; leave score_mod out, or express it with softcap, "
                "alibi, windows or mask_mod");
  const Settings settings = Settings::of(p);
  for (const GradientTensor& gradient : gradient_tensors)
    if (gradient.tensor != &Settings::dout)
      attention::check_apart(settings.forward, gradient.side, settings.*gradient.tensor, gradient.name);
}

void adopt(const AttentionBackwardProblem& problem, const AttentionBackwardArrays& arrays) {
  check_aux_given(problem, arrays.aux);
}

}  // namespace tunesmith
