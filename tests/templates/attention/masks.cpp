#include "tests/templates/attention/masks.h"

#include "core/half.h"

namespace tunesmith::test {
namespace {

using Int = std::int64_t;

/// A sequence of the problem and its unmasked pairs.
struct Pairs {
  Int seq_q, seq_kv, offset, left, right;
  bool top_left;

  Pairs(const Problem& problem, const AttentionArraysOnHost& arrays, Int batch) {
    const Fields& fields = problem.fields;
    const auto number = [&](const char* field, Int otherwise) {
      return fields.contains(field) ? fields.integer(field) : otherwise;
    };
    seq_q = fields.integer("seq_q");
    seq_kv = fields.integer("seq_kv");
    if (fields.contains("varlen")) {
      seq_q = arrays.integer("cu_seqlens_q", batch + 1) - arrays.integer("cu_seqlens_q", batch);
      seq_kv = arrays.integer("cu_seqlens_kv", batch + 1) - arrays.integer("cu_seqlens_kv", batch);
    }
    left = number("window_left", -1);
    right = number("window_right", -1);
    const std::string causal = fields.contains("causal") ? fields.string("causal") : "none";
    top_left = causal == "top-left";
    if (causal != "none") right = 0;
    offset = top_left ? 0 : seq_kv - seq_q;
  }
  bool sees(Int q, Int k) const {
    if (q >= seq_q || k >= seq_kv) return false;
    return (left < 0 || k >= q + offset - left) && (right < 0 || k <= q + offset + right);
  }
};

}  // namespace

std::string mask_source(const std::string& condition) {
  return "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return " + condition + "; }\n";
}

Problem Mask::problem(const std::string& fields) const {
  std::vector<std::pair<std::string, std::string>> texts{{"mask_mod", text}};
  if (!aux.empty()) texts.emplace_back("aux", aux);
  return modified(fields, texts);
}

std::vector<Mask> masks() {
  const auto plain = [](const MaskMod& mod) { return [mod](const AttentionArraysOnHost&, Int, Int) { return mod; }; };
  return {
      {"documents", mod_example("document_mask"), "",
       [](const AttentionArraysOnHost& arrays, Int seq_q, Int seq_kv) {
         return [&, seq_q, seq_kv](Int b, Int, Int q, Int k) {
           return arrays.integer("query_document", b * seq_q + q) == arrays.integer("key_document", b * seq_kv + k);
         };
       }},
      {"dilated window", mod_example("dilated_window"), "window:i32=20;dilation:i32=3",
       [](const AttentionArraysOnHost&, Int seq_q, Int seq_kv) {
         return [=](Int, Int, Int q, Int k) {
           const Int distance = q + seq_kv - seq_q - k;
           return distance >= 0 && distance < 60 && distance % 3 == 0;
         };
       }},
      {"prefix", mod_example("prefix_lm"), "",
       [](const AttentionArraysOnHost& arrays, Int seq_q, Int seq_kv) {
         return [&, seq_q, seq_kv](Int b, Int, Int q, Int k) {
           return k < arrays.integer("prefix", b) || k <= q + seq_kv - seq_q;
         };
       }},
      {"by batch entry and head", mask_source("(k / 40 + q / 50 + h + 2 * b) % 3 == 0"), "",
       plain([](Int b, Int h, Int q, Int k) { return (k / 40 + q / 50 + h + 2 * b) % 3 == 0; })},
      {"blocks of an array", "// aux: blocks:u8[64]\n" + mask_source("aux.blocks[q / 32 % 8 * 8 + k / 64 % 8] == 0"), "",
       [](const AttentionArraysOnHost& arrays, Int, Int) {
         return [&](Int, Int, Int q, Int k) { return arrays.integer("blocks", q / 32 % 8 * 8 + k / 64 % 8) == 0; };
       }},
      {"nothing", mask_source("false"), "", plain([](Int, Int, Int, Int) { return false; })},
      {"everything", mask_source("true"), "", plain([](Int, Int, Int, Int) { return true; })},
      {"all but one", mask_source("q != 67 || k != 66"), "",
       plain([](Int, Int, Int q, Int k) { return q != 67 || k != 66; })},
      {"every other tile", mask_source("(q / 64 + k / 64) % 2 == 0"), "",
       plain([](Int, Int, Int q, Int k) { return (q / 64 + k / 64) % 2 == 0; })},
  };
}

std::vector<std::string> masked_shapes() {
  return {
      "batch=2,heads=2,seq_q=150,seq_kv=203,head_dim=16,dtype=bf16",
      "batch=2,heads=4,kv_heads=2,seq_q=203,seq_kv=130,head_dim=24,dtype=f16,causal=bottom-right",
      "batch=1,heads=2,seq_q=129,seq_kv=300,head_dim=8,dtype=bf16,window_left=40,window_right=70",
      "batch=3,heads=1,seq_q=20,seq_kv=2113,head_dim=8,dtype=f16",
      "batch=4,heads=2,kv_heads=1,seq_q=140,seq_kv=210,head_dim=16,dtype=f16,varlen=1,total_q=300,total_kv=500,causal=top-"
      "left",
  };
}

std::string wrong_block_mask(const Problem& problem, const AttentionArraysOnHost& arrays, const MaskMod& mask_mod) {
  const std::vector<Int> shape = arrays["block_mask"].info.shape;
  const Int words = shape[4];
  for (Int b = 0; b < shape[0]; ++b) {
    const Pairs pairs(problem, arrays, b);
    for (Int h = 0; h < shape[1]; ++h)
      for (Int row = 0; row < shape[2]; ++row)
        for (Int tile = 0; tile < 32 * words; ++tile) {
          bool any = false, whole = true;
          for (Int q = 64 * row; q < 64 * row + 64; ++q)
            for (Int k = 64 * tile; k < 64 * tile + 64; ++k) {
              if (!pairs.sees(q, k)) continue;
              const bool keeps = mask_mod(b, h, q, k);
              any = any || keeps;
              whole = whole && keeps;
            }
          const auto bit = [&](Int kind) {
            const Int word = (((b * shape[1] + h) * shape[2] + row) * 2 + kind) * words + tile / 32;
            return (arrays.integer("block_mask", word) >> tile % 32 & 1) != 0;
          };
          if (bit(0) != any || bit(1) != whole)
            return "batch " + std::to_string(b) + ", head " + std::to_string(h) + ", tile " + std::to_string(row) + " x " +
                   std::to_string(tile) + " is " + (any ? "any " : "") + (whole ? "whole" : "") + ", but found " +
                   (bit(0) ? "any " : "") + (bit(1) ? "whole" : "");
        }
  }
  return {};
}

}  // namespace tunesmith::test
