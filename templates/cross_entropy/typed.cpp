// The typed problems of the cross-entropy family as fields.

#include "tunesmith/cross_entropy.h"

namespace tunesmith {
namespace {

/// Leaves out what has its default.
class FieldWriter {
 public:
  explicit FieldWriter(Fields& fields) : fields_(fields) {}

  void integer(std::string_view field, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) fields_.set(field, value);
  }
  void real(std::string_view field, double value, double fallback) {
    if (value != fallback) fields_.set(field, value);
  }
  void flag(std::string_view field, bool value) { integer(field, value ? 1 : 0, 0); }
  void reduction(Reduction value) {
    if (value != Reduction::mean) fields_.set("reduction", std::string(value == Reduction::sum ? "sum" : "none"));
  }
  void dloss(Upstream value) {
    if (value != Upstream::none) fields_.set("dloss", std::string(value == Upstream::scalar ? "scalar" : "row"));
  }

 private:
  Fields& fields_;
};

Value word(DType dtype) { return std::string(name(dtype)); }

const char* name_of(Gradient gradient) {
  if (gradient == Gradient::none) return "none";
  return gradient == Gradient::separate ? "separate" : "in_place";
}

/// What problems with logits share.
template <typename Typed>
void write_logit_options(const Typed& problem, FieldWriter& fields) {
  fields.integer("ignore_index", problem.ignore_index, -100);
  fields.real("label_smoothing", problem.label_smoothing, 0);
  fields.real("scale", problem.scale, 1);
  fields.real("softcap", problem.softcap, 0);
  fields.flag("weight", problem.weight);
}

template <typename Typed>
void write_place(const Typed& problem, FieldWriter& fields) {
  fields.integer("vocab_start", problem.vocab_start, 0);
  fields.integer("vocab_size", problem.vocab_size, 0);
}

}  // namespace

Problem to_problem(const CrossEntropyProblem& problem) {
  Problem general{"cross_entropy",
                  {{"rows", problem.rows},
                   {"cols", problem.cols},
                   {"dtype", word(problem.dtype)},
                   {"target_dtype", word(problem.target_dtype)},
                   {"out_dtype", word(problem.out_dtype)},
                   {"logits_row_stride", problem.logits_row_stride},
                   {"dlogits_row_stride", problem.dlogits_row_stride},
                   {"logits_alignment", problem.logits_alignment},
                   {"dlogits_alignment", problem.dlogits_alignment},
                   {"gradient", std::string(name_of(problem.gradient))}}};
  FieldWriter fields(general.fields);
  write_logit_options(problem, fields);
  fields.real("z_loss", problem.z_loss, 0);
  fields.reduction(problem.reduction);
  fields.dloss(problem.dloss);
  fields.flag("nll", problem.nll);
  fields.flag("predicted", problem.predicted);
  fields.flag("correct", problem.correct);
  fields.flag("check_targets", problem.check_targets);
  return general;
}

Problem to_problem(const CrossEntropyBackwardProblem& problem) {
  Problem general{"cross_entropy_backward",
                  {{"rows", problem.rows},
                   {"cols", problem.cols},
                   {"dtype", word(problem.dtype)},
                   {"target_dtype", word(problem.target_dtype)},
                   {"out_dtype", word(problem.out_dtype)},
                   {"logits_row_stride", problem.logits_row_stride},
                   {"dlogits_row_stride", problem.dlogits_row_stride},
                   {"logits_alignment", problem.logits_alignment},
                   {"dlogits_alignment", problem.dlogits_alignment},
                   {"in_place", std::int64_t{problem.in_place}}}};
  FieldWriter fields(general.fields);
  write_place(problem, fields);
  write_logit_options(problem, fields);
  fields.real("z_loss", problem.z_loss, 0);
  fields.reduction(problem.reduction);
  fields.dloss(problem.dloss);
  fields.flag("nll", problem.nll);
  return general;
}

Problem to_problem(const CrossEntropyShardProblem& problem) {
  Problem general{"cross_entropy_shard",
                  {{"rows", problem.rows},
                   {"cols", problem.cols},
                   {"dtype", word(problem.dtype)},
                   {"target_dtype", word(problem.target_dtype)},
                   {"logits_row_stride", problem.logits_row_stride},
                   {"logits_alignment", problem.logits_alignment}}};
  FieldWriter fields(general.fields);
  write_place(problem, fields);
  write_logit_options(problem, fields);
  fields.flag("predicted", problem.predicted);
  return general;
}

Problem to_problem(const CrossEntropyCombineProblem& problem) {
  Problem general{"cross_entropy_combine",
                  {{"rows", problem.rows},
                   {"shards", problem.shards},
                   {"target_dtype", word(problem.target_dtype)},
                   {"vocab_size", problem.vocab_size}}};
  FieldWriter fields(general.fields);
  fields.integer("ignore_index", problem.ignore_index, -100);
  fields.real("label_smoothing", problem.label_smoothing, 0);
  fields.real("z_loss", problem.z_loss, 0);
  fields.reduction(problem.reduction);
  fields.flag("weight", problem.weight);
  fields.flag("nll", problem.nll);
  fields.flag("predicted", problem.predicted);
  fields.flag("correct", problem.correct);
  fields.flag("check_targets", problem.check_targets);
  return general;
}

}  // namespace tunesmith
