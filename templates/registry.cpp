// The list of operations, in the order of the help text.

#include <algorithm>
#include <array>
#include <memory>

#include "templates/attention/op.h"
#include "templates/attention_backward/op.h"
#include "templates/copy/op.h"
#include "templates/cross_entropy/finalize_op.h"
#include "templates/cross_entropy/op.h"
#include "templates/cross_entropy/upstream_op.h"
#include "templates/kv_append/op.h"
#include "templates/linear_loss/backward_op.h"
#include "templates/linear_loss/op.h"
#include "templates/matmul/op.h"
#include "templates/merge_attention_parts/op.h"
#include "templates/op.h"
#include "templates/rms_norm/op.h"
#include "templates/row_program/language/programs.h"
#include "templates/row_program/op.h"
#include "templates/row_program/shipped_op.h"
#include "templates/scale/op.h"
#include "templates/softmax/op.h"
#include "tunesmith/error.h"

namespace tunesmith {

std::span<const Op* const> all_ops() {
  static const SoftmaxOp softmax, log_softmax({.logarithm = true});
  static const SoftmaxBackwardOp softmax_backward, log_softmax_backward({.logarithm = true});
  static const CrossEntropyOp<CrossEntropyProblem> cross_entropy;
  static const CrossEntropyOp<CrossEntropyBackwardProblem> cross_entropy_backward;
  static const CrossEntropyOp<CrossEntropyShardProblem> cross_entropy_shard;
  static const CrossEntropyOp<CrossEntropyCombineProblem> cross_entropy_combine;
  static const cross_entropy::DivisorOp cross_entropy_divisor;
  static const cross_entropy::UpstreamOp cross_entropy_upstream;
  static const cross_entropy::ReduceOp cross_entropy_reduce;
  static const RmsNormOp rms_norm;
  static const RowProgramOp row_program;
  static const AttentionOp attention;
  static const AttentionBackwardOp attention_backward;
  static const KvAppendOp kv_append;
  static const MergePartsOp merge_attention_parts;
  static const CopyOp copy;
  static const ScaleOp scale;
  static const MatmulOp matmul;
  static const LinearLossOp linear_loss;
  static const LinearLossBackwardOp linear_loss_backward;
  static const auto ops = std::to_array<const Op*>({&softmax,
                                                    &log_softmax,
                                                    &softmax_backward,
                                                    &log_softmax_backward,
                                                    &cross_entropy,
                                                    &cross_entropy_backward,
                                                    &cross_entropy_shard,
                                                    &cross_entropy_combine,
                                                    &cross_entropy_divisor,
                                                    &cross_entropy_upstream,
                                                    &cross_entropy_reduce,
                                                    &rms_norm,
                                                    &row_program,
                                                    &attention,
                                                    &attention_backward,
                                                    &kv_append,
                                                    &merge_attention_parts,
                                                    &copy,
                                                    &scale,
                                                    &matmul,
                                                    &linear_loss,
                                                    &linear_loss_backward});
  return ops;
}

std::span<const Op* const> shipped_program_ops() {
  static const auto made = [] {
    std::vector<std::unique_ptr<const ShippedProgramOp>> all;
    const Op& row_program = find_op("row_program");
    for (const auto& [program, text] : row_program::shipped_programs())
      for (std::string name : {std::string(program), std::string(program) + "_gradient"})
        if (std::ranges::find(all_ops(), name, &Op::name) == all_ops().end())
          all.push_back(std::make_unique<const ShippedProgramOp>(row_program, std::move(name)));
    return all;
  }();
  static const auto ops = [] {
    std::vector<const Op*> all;
    for (const auto& op : made) all.push_back(op.get());
    return all;
  }();
  return ops;
}

const Op& find_op(std::string_view name) {
  for (const Op* op : all_ops())
    if (op->name() == name) return *op;
  for (const Op* op : shipped_program_ops())
    if (op->name() == name) return *op;
  std::string known;
  for (const Op* op : all_ops())
    if (!op->is_internal()) known += (known.empty() ? "" : ", ") + std::string(op->name());
  throw Error(ErrorCode::invalid_argument, "op is '", name, "'; allowed: ", known,
              ", and shipped row programs such as layer_norm");
}

}  // namespace tunesmith
