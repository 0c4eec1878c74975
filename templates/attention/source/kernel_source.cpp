// The shape's constants and the parameters that all attention kernels share.

#include "templates/attention/source/kernel_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "templates/array_places.h"
#include "templates/attention/reference/dropout.h"
#include "templates/attention/source/block_mask.h"
#include "templates/attention/source/modification.h"
#include "templates/source_text.h"

namespace tunesmith::attention {
namespace {

/// Sets the coefficients of tanh(x) = x (1 + c0 x^2 + c1 x^4 + c2 x^6) for |x| <= 1/2, with a relative error of 6.5e-7
/// (minimax, fitted by reweighted least squares), for a dot product x * softcap / scale.
void fill_cap_terms(const Settings& settings, Params& params) {
  constexpr std::array<double, 3> terms{-0.333281606, 0.132053599, -0.0447506309};
  const double to_x = settings.scale / settings.softcap;
  params.inverse_softcap = static_cast<float>(1 / settings.softcap);
  for (std::size_t i = 0; i < terms.size(); ++i)
    params.cap_terms[i] = static_cast<float>(terms[i] * std::pow(to_x, 2.0 * static_cast<double>(i + 1)));
  params.cap_near = static_cast<float>(0.5 / to_x);
}

/// Sets the coefficients of tanh(x) = x (c0 + c1 x^2) for |x| <= bound, exact at the zeros of the Chebyshev polynomial of
/// degree 5. Its error is at most 2/15 bound^5 / 16 (the next term of tanh's series, without the part that shorter
/// polynomials cover), which changes a score by small_cap_error. For dot products, as an exponent of 2.
void fill_small_cap_terms(const Settings& settings, Params& params) {
  const double to_x = settings.scale / settings.softcap;
  const double bound =
      std::min({0.4, std::pow(small_cap_error * 120 / settings.softcap, 0.2), max_small_score / settings.softcap});
  const auto ratio = [](double x) { return std::tanh(x) / x; };
  const double inner = bound * std::cos(std::numbers::pi * 0.3), outer = bound * std::cos(std::numbers::pi * 0.1);
  const double slope = (ratio(outer) - ratio(inner)) / (outer * outer - inner * inner);
  const double factor = settings.scale * std::numbers::log2e;
  params.cap_small_terms[0] = static_cast<float>(factor * (ratio(inner) - slope * inner * inner));
  params.cap_small_terms[1] = static_cast<float>(factor * slope * to_x * to_x);
  params.cap_small = static_cast<float>(bound / std::fabs(to_x));
}

/// Sets the coefficients of tanh(x) = x (c0 + c1 x^2 + c2 x^4) for |x| <= bound, exact at the zeros of the Chebyshev
/// polynomial of degree 7. Its error is about 17/315 bound^7 / 64, which changes a score by lse_cap_error.
void fill_lse_cap_terms(const Settings& settings, Params& params) {
  const double to_x = settings.scale / settings.softcap, error = std::min(lse_cap_error, settings.softcap * 0x1p-22);
  const double bound =
      std::min({0.4, std::pow(error / settings.softcap * 64 * 315 / 17, 1.0 / 7), max_small_score / settings.softcap});
  // Newton's divided differences of tanh(x) / x as a function of x^2.
  std::array<double, 3> squares{}, ratios{};
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const double x = bound * std::cos(std::numbers::pi * static_cast<double>(2 * i + 1) / 14);
    squares[i] = x * x;
    ratios[i] = std::tanh(x) / x;
  }
  const double first = (ratios[1] - ratios[0]) / (squares[1] - squares[0]);
  const double second = ((ratios[2] - ratios[1]) / (squares[2] - squares[1]) - first) / (squares[2] - squares[0]);
  const double factor = settings.scale * std::numbers::log2e, square = to_x * to_x;
  params.cap_lse_terms[0] = static_cast<float>(factor * (ratios[0] - first * squares[0] + second * squares[0] * squares[1]));
  params.cap_lse_terms[1] = static_cast<float>(factor * (first - second * (squares[0] + squares[1])) * square);
  params.cap_lse_terms[2] = static_cast<float>(factor * second * square * square);
  params.cap_lse = static_cast<float>(bound / std::fabs(to_x));
}

}  // namespace

AttentionStrides strides_of(const Tensor& tensor) { return {tensor.batch_stride, tensor.seq_stride, tensor.head_stride}; }

Params parameters_of(const Settings& settings) {
  Params params{};
  params.q_strides = strides_of(settings.tensor(Side::q));
  params.k_strides = strides_of(settings.tensor(Side::k));
  params.v_strides = strides_of(settings.tensor(Side::v));
  params.o_strides = strides_of(settings.tensor(Side::o));
  std::ranges::copy(aux_bits(settings), params.aux);
  params.total_q = settings.total_q;
  params.batch = static_cast<std::int32_t>(settings.batch);
  params.heads = static_cast<std::int32_t>(settings.heads);
  params.kv_heads = static_cast<std::int32_t>(settings.kv_heads);
  params.seq_q = static_cast<std::int32_t>(settings.seq_q);
  params.seq_kv = static_cast<std::int32_t>(settings.seq_kv);
  params.window_left = static_cast<std::int32_t>(settings.left());
  params.window_right = static_cast<std::int32_t>(settings.right());
  constexpr double section_bytes = 32 << 20;  // part of the L2
  const double head_bytes =
      static_cast<double>(settings.seq_kv * (settings.head_dim + settings.head_dim_v) * size_of(settings.kv_dtype)) /
      static_cast<double>(settings.group());
  const std::int64_t max_heads = std::max(settings.batch * settings.heads, settings.group());
  params.heads_per_section = static_cast<std::int32_t>(
      head_bytes == 0
          ? max_heads
          : std::clamp<std::int64_t>(static_cast<std::int64_t>(section_bytes / head_bytes), settings.group(), max_heads));
  const BlockMaskLayout tiles = BlockMaskLayout::of(settings);
  params.mask_batch_stride = tiles.batch_stride();
  params.mask_head_stride = tiles.head_stride();
  params.mask_rows = static_cast<std::int32_t>(tiles.rows);
  params.mask_words = static_cast<std::int32_t>(tiles.words);
  const double log2e = 1.44269504088896340736;
  params.scale = static_cast<float>(settings.scale);
  params.scale_log2 = static_cast<float>(settings.scale * log2e);
  params.softcap = static_cast<float>(settings.softcap);
  if (settings.softcap != 0) {
    fill_cap_terms(settings, params);
    fill_small_cap_terms(settings, params);
    fill_lse_cap_terms(settings, params);
  }
  return params;
}

AttentionPages pages_of(const Settings& settings) {
  AttentionPages pages{};
  pages.table_stride = settings.table_stride;
  return pages;
}

AttentionScales scales_of(const Settings& settings) {
  AttentionScales scales{};
  scales.k_strides = strides_of(settings.scale_tensor(Side::k));
  scales.v_strides = strides_of(settings.scale_tensor(Side::v));
  return scales;
}

AttentionDropout dropout_of(const Settings& settings) {
  AttentionDropout dropout{};
  dropout.seed = static_cast<std::uint64_t>(settings.dropout_seed);
  dropout.offset = static_cast<std::uint64_t>(settings.dropout_offset);
  dropout.threshold = dropout_threshold(settings.dropout) << 16;
  dropout.factor = static_cast<float>(dropout_factor(settings.dropout));
  return dropout;
}

std::uint32_t pointer_offset(std::string_view array, const Settings& settings) {
  for (std::size_t i = 0; i < settings.aux.size(); ++i)
    if (array == settings.aux[i].name) return static_cast<std::uint32_t>(offsetof(Params, aux) + i * sizeof(std::uint64_t));
  static constexpr std::array<ArrayPlace, 10> places{{{"q", offsetof(Params, q)},
                                                      {"k", offsetof(Params, k)},
                                                      {"v", offsetof(Params, v)},
                                                      {"o", offsetof(Params, o)},
                                                      {"lse", offsetof(Params, lse)},
                                                      {"alibi_slopes", offsetof(Params, alibi_slopes)},
                                                      {"sinks", offsetof(Params, sinks)},
                                                      {"cu_seqlens_q", offsetof(Params, cu_seqlens_q)},
                                                      {"cu_seqlens_kv", offsetof(Params, cu_seqlens_kv)},
                                                      {"block_mask", offsetof(Params, block_mask)}}};
  return offset_of(array, places);
}

std::string shape_text(const Settings& settings) {
  std::string text = "static constexpr tunesmith::AttentionShape shape = {\n" + member("head_dim", settings.head_dim) +
                     member("head_dim_v", settings.head_dim_v);
  for (const Side side : {Side::q, Side::k, Side::v, Side::o})
    text += member(std::string(side_names[static_cast<std::size_t>(side)]) + "_vector", settings.vector(side));
  text += member("diagonal",
                 std::string("tunesmith::Diagonal::") + (settings.causal == Causal::top_left ? "top_left" : "bottom_right"));
  return text + options_flags(settings) + "};\n\n";
}

std::string features_text(const Settings& settings, const FeatureUse& use) {
  std::string text = "template <>\nstruct tunesmith::AttentionFeatures<shape> {\n";
  const auto add = [&](const std::string& name, const std::string& type) {
    text += "  using " + name + " = tunesmith::" + type + ";\n";
  };
  const std::string masked = settings.mask_mod.empty() ? "" : "Masked";
  const std::string keys = settings.page_size > 0 ? "Paged" : "Contiguous";
  add("Lengths", settings.kv_lengths ? "DeviceLengths<shape>" : settings.varlen ? "PackedLengths" : "FixedLengths");
  const bool e4m3 = settings.kv_dtype == DType::e4m3;
  if (settings.kv_lengths || settings.kv_scales != KvScales::none) add("Argument", use.argument);
  if (use.rows) {
    text += "  template <typename Element>\n";
    add("KeyValues", keys + "KeyValues<" + (e4m3 ? device_type(DType::e4m3) : "Element") + ", shape>");
  }
  if (use.boxes) {
    text += "  template <int tile_kv>\n";
    add("KeyBoxes", keys + "Boxes<shape, tile_kv>");
  }
  text += "  template <int max_q, int tile_kv>\n";
  add("Tiles", masked + "KeyTiles<shape, max_q, tile_kv>");
  if (use.ring) {
    text += "  template <int tile_q, int tile_kv, bool ordered, int head_split>\n";
    add("Ring", masked + "QueryRing<shape, tile_q, tile_kv, ordered, head_split>");
  }
  for (const Option& option : all_options())
    for (const Feature& feature : option.features)
      if (feature.name != nullptr && option.value(settings) != 0 && (feature.only_with == nullptr || use.*feature.only_with))
        add(feature.name, feature.type);
  if (use.chunks != Chunks::none) add("Chunks", use.chunks == Chunks::aligned ? "AlignedChunks" : "UnalignedChunks");
  if (use.scales)
    add("Scales", settings.kv_scales == KvScales::none ? "NoScales"
                  : settings.has_row_scales()          ? "RowScales<shape>"
                                                       : "HeadScales<shape>");
  if (use.products) {
    text += "  template <typename Element, int blocks, int keys>\n";
    add("Products", std::string(e4m3 ? "Byte" : "Warp") + "Products<Element, shape, blocks, keys>");
  }
  return text + "};\n\n";
}

std::vector<std::pair<std::string, std::string>> specialized_for(const Settings& settings) {
  std::string what = std::string(tunesmith::name(settings.dtype)) + ", head_dim " + std::to_string(settings.head_dim);
  if (settings.head_dim_v != settings.head_dim) what += " and " + std::to_string(settings.head_dim_v) + " for V";
  if (settings.causal != Causal::none)
    what += std::string(", causal ") + (settings.causal == Causal::top_left ? "top-left" : "bottom-right");
  std::string any = "batch, heads, sequence lengths, scale";
  for (const Option& option : all_options()) {
    const std::int64_t value = option.value(settings);
    if (value == 0) continue;
    if (*option.head != '\0') what += std::string(", ") + option.head + (option.is_number ? std::to_string(value) : "");
    if (*option.any != '\0') any += std::string(", ") + option.any;
  }
  return {{"specialized for", what}, {"any", any}};
}

}  // namespace tunesmith::attention
