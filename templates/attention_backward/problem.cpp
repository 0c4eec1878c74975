// Problems of attention's backward pass: checks that concern several fields.

#include <utility>

#include "templates/attention/op.h"
#include "templates/attention/source/modification.h"
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
  s.daux = p.daux;
  return s;
}

namespace {

/// Checks the names of arrays that get gradients, and puts them in the order of aux.
void complete_aux_gradients(AttentionBackwardProblem& p) {
  if (p.daux.empty()) return;
  if (p.score_mod.empty())
    throw Error(ErrorCode::invalid_argument, "daux is given, but there is no score_mod that reads arrays");
  AttentionAuxGradients ordered;
  for (const AttentionAux& aux : p.aux) {
    if (aux.name.starts_with(AttentionAuxGradients::prefix))
      throw Error(ErrorCode::invalid_argument, "aux declares '", aux.name, "', and daux gives gradients such names; ",
                  "choose one that does not start with '", AttentionAuxGradients::prefix, "'");
    if (p.daux.array_of(aux.name) == nullptr) continue;
    if (!aux.length)
      throw Error(ErrorCode::invalid_argument, "daux names '", aux.name, "', which is a number; expected an array, such as ",
                  aux.name, ":f32[1]");
    if (!is_float(aux.dtype))
      throw Error(ErrorCode::invalid_argument, "daux names '", aux.name, "', an array of ", name(aux.dtype),
                  "; arrays of f32, f16 and bf16 have gradients");
    ordered.add(aux.name);
  }
  for (const std::string& array : p.daux.arrays())
    if (const std::string_view name = AttentionAuxGradients::name_in(array); ordered.array_of(name) == nullptr) {
      std::string declared;
      for (const AttentionAux& aux : p.aux)
        if (aux.length) declared += (declared.empty() ? "" : ", ") + aux.name;
      throw Error(ErrorCode::invalid_argument, "daux names '", name,
                  "', which aux does not declare; declared arrays: ", declared.empty() ? "none" : declared);
    }
  if (ordered.arrays().size() != p.daux.arrays().size())
    throw Error(ErrorCode::invalid_argument, "daux names an array twice");
  p.daux = std::move(ordered);
}

}  // namespace

}  // namespace attention_backward

using namespace attention_backward;

std::string_view summary_of(const AttentionBackwardProblem&) noexcept {
  return "dq, dk and dv of attention from dout, the gradient of o; also of sinks, ALiBi slopes and score_mod's arrays";
}

void complete(AttentionBackwardProblem& p) {
  if (has_kv_lengths(p))
    throw Error(ErrorCode::invalid_argument, p.page_size ? "page_size is " : "kv_lengths is ", p.page_size.value_or(1),
                "; attention_backward has neither pages nor lengths in device memory");
  if (p.kv_dtype.value_or(p.dtype) != p.dtype)
    throw Error(ErrorCode::invalid_argument, "kv_dtype is ", name(*p.kv_dtype), "; attention_backward has dtype, ",
                name(p.dtype), ", alone");
  complete(static_cast<AttentionProblem&>(p));
  const auto [q, k, v, o] = attention_tensors(p);
  reset_unused_strides(p, {{o, p.dout_strides}, {q, p.dq_strides}, {k, p.dk_strides}, {v, p.dv_strides}});
  const Settings settings = Settings::of(p);
  if (!p.score_mod_grad.empty()) {
    if (p.score_mod.empty())
      throw Error(ErrorCode::invalid_argument,
                  "score_mod_grad is given, but there is no score_mod that it is the derivative of");
    attention::check_score_mod_grad(p.score_mod_grad);
  }
  if (!p.score_mod.empty() && (p.score_mod_grad.empty() || !p.daux.empty()))
    attention::check_differentiable(settings.forward, !p.score_mod_grad.empty());
  complete_aux_gradients(p);
  for (const GradientTensor& gradient : gradient_tensors)
    if (gradient.tensor != &Settings::dout)
      attention::check_apart(settings.forward, gradient.side, settings.*gradient.tensor, gradient.name);
}

void adopt(const AttentionBackwardProblem& problem, const AttentionBackwardArrays& arrays) {
  check_aux_given(problem, arrays.aux);
  std::size_t given = arrays.daux.size();
  while (given > 0 && arrays.daux[given - 1] == nullptr) --given;
  if (const std::size_t known = problem.daux.arrays().size(); given > known)
    throw Error(ErrorCode::invalid_argument, "daux[", given - 1, "] is given, but the problem's daux has ", known,
                known == 1 ? " name" : " names", "; expected null pointers after them");
}

Value FieldType<AttentionAuxGradients>::get(const AttentionAuxGradients& member) {
  std::string text;
  for (const std::string& array : member.arrays())
    text += (text.empty() ? "" : ";") + std::string(AttentionAuxGradients::name_in(array));
  return text;
}

void FieldType<AttentionAuxGradients>::set(AttentionAuxGradients& member, const Value& value) {
  member = {};
  std::string name;
  for (const char c : std::get<std::string>(value) + ";") {
    if (c == ';') {
      if (!name.empty()) member.add(name);
      name.clear();
    } else if (c != ' ') {
      name += c;
    }
  }
}

}  // namespace tunesmith
