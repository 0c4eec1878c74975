#include "templates/attention_backward/config.h"

#include <algorithm>

#include "templates/attention_backward/aux_gradient.h"
#include "templates/config_values.h"
#include "templates/variant_config.h"
#include "tunesmith/description.h"
#include "tunesmith/error.h"

namespace tunesmith::attention_backward {
namespace {

/// Describes the fields of config.variant in the order of a configuration's text.
void describe_fields(TypedConfig& config, Description& v) {
  const auto field = [&](std::string_view name, auto& member, FieldFacts facts) {
    facts.required = true;
    v.field(name, member, facts);
  };
  field("variant", config.variant, {.meaning = "the kernels"});
  if (config.variant == Variant::simt) {
    field("threads", config.threads, {.meaning = "threads of a block", .range = {32, 512}, .power_of_two = true});
    field("tile_q", config.tile_q, {.meaning = "queries of a tile", .range = {16, 128}, .power_of_two = true});
    field("tile_kv", config.tile_kv, {.meaning = "keys of a tile", .range = {16, 128}, .power_of_two = true});
    return;
  }
  if (config.variant == Variant::wgmma) {
    field("roles", config.roles, {.meaning = "what two warpgroups share: the keys of a block, or the gradients"});
    field("tile_q", config.tile_q, {.meaning = "queries of a tile", .range = {64, 128}, .power_of_two = true});
    field("stages", config.stages, {.meaning = "Q tiles, and dO tiles, in flight or in use", .range = {2, 3}});
    field("ahead", config.ahead, {.meaning = "S of the next tile is computed right after dK"});
    v.field("cluster", config.cluster,
            {.meaning = "blocks of a cluster that holds all keys of a key head and adds dq in its shared memory; 0: dq is "
                        "summed in the workspace",
             .range = {2, 8},
             .power_of_two = true,
             .zero_too = true,
             .omit_default = true});
    v.field(
        "head_split", config.head_split,
        {.meaning = "blocks of a cluster that share the query heads of a key head and add dk and dv in shared memory; 0: "
                    "one block goes through all of them",
         .range = {2, 8},
         .power_of_two = true,
         .zero_too = true,
         .omit_default = true});
    v.field("adders", config.adders,
            {.meaning = "a fourth warpgroup loads tiles and adds to the sums of dq, as it always does if deterministic=1 "
                        "and roles=keys",
             .omit_default = true});
    v.field(
        "kernels", config.kernels,
        {.meaning = "1: one kernel computes dk and dv and adds to dq; 2: dq has a kernel of its own, which computes S and "
                    "dP again and adds to nothing in global memory",
         .range = {1, 2},
         .omit_default = true});
    v.field(
        "dq_tile_q", config.dq_tile_q,
        {.meaning = "queries of a block of that kernel", .range = {64, 128}, .power_of_two = true, .omit_default = true});
    v.field("dq_tile_kv", config.dq_tile_kv,
            {.meaning = "keys of a tile that it streams", .range = {64, 128}, .step = 32, .omit_default = true});
    v.field("dq_stages", config.dq_stages,
            {.meaning = "K tiles that it has in flight or in use; V tiles are one fewer",
             .range = {2, 3},
             .omit_default = true});
    v.field("persistent", config.persistent,
            {.meaning = "as many blocks as the device has multiprocessors go through the keys of all blocks, and load those "
                        "that follow early",
             .omit_default = true});
    return;
  }
  const Range warps{1, 16}, kept{16, 256}, streamed{16, 128}, stages{1, 2};
  field("kv_warps", config.keys.warps, {.meaning = "warps of a block that computes dk and dv", .range = warps});
  field("kv_kept", config.keys.kept, {.meaning = "keys of such a block", .range = kept, .step = 16});
  field("kv_streamed", config.keys.streamed,
        {.meaning = "queries of a tile that it streams", .range = streamed, .power_of_two = true});
  field("kv_stages", config.keys.stages, {.meaning = "such tiles in flight or in use", .range = stages});
  field("kv_split", config.keys.split, {.meaning = "different warps compute dk and dv"});
  field("q_warps", config.queries.warps, {.meaning = "warps of a block that computes dq", .range = warps});
  field("q_kept", config.queries.kept, {.meaning = "queries of such a block", .range = kept, .power_of_two = true});
  field("q_streamed", config.queries.streamed, {.meaning = "keys of a tile that it streams", .range = streamed, .step = 16});
  field("q_stages", config.queries.stages, {.meaning = "such tiles in flight or in use", .range = stages});
}

Description described(TypedConfig& config) {
  return Description([&](Description& description) { describe_fields(config, description); });
}

/// Reads the variant. Throws Error(invalid_argument) that lists the variants.
Variant parse_variant(const Fields& fields) { return read_variant<Variant>("attention_backward's configurations", fields); }

/// As SimtBackwardTiles and MmaBackwardTiles lay it out; the generated source asserts the size.
std::int64_t simt_smem_bytes(std::int64_t kept, std::int64_t streamed, const attention::Settings& settings) {
  constexpr std::int64_t pad = 4;
  const std::int64_t d = settings.head_dim + pad, d_v = settings.head_dim_v + pad;
  return (kept * (d + d_v) + streamed * std::max(d, d_v) + kept * (streamed + pad) + 2 * std::max(kept, streamed)) * 4;
}
std::int64_t mma_smem_bytes(const MmaPass& pass, const attention::Settings& settings) {
  const std::int64_t row = (settings.head_dim + settings.head_dim_v) * 2;
  return pass.kept * row + pass.stages * pass.streamed * (row + 8);
}
std::int64_t slabs(std::int64_t width) { return (width + 63) / 64; }
/// As WgmmaBackwardTiles lays it out.
std::int64_t wgmma_smem_bytes(const TypedConfig& config, const Settings& problem) {
  const attention::Settings& settings = problem.forward;
  constexpr std::int64_t row = 128;
  const bool by_gradient = config.roles == Roles::gradients;
  const std::int64_t kept = config.kept(Pass::keys), weights = by_gradient ? config.tile_q / 16 * 128 * 16 : 0;
  const std::int64_t all_slabs = slabs(settings.head_dim) + slabs(settings.head_dim_v);
  const std::int64_t pieces = config.tile_q / 64 * slabs(settings.head_dim);
  const std::int64_t stages = by_gradient || config.separate_dq()              ? 0
                              : pieces < 2 && !config.separate_adders(problem) ? 1
                                                                               : 2;
  const std::int64_t sums = config.cluster > 0 ? 2 * config.tile_q * settings.head_dim * 4 : stages * 64 * 64 * 4;
  const std::int64_t factors = config.separate_dq() ? 0 : kept / 64 * config.tile_q * row;
  const std::int64_t kv_stages = config.persistent && all_slabs == 2 ? 2 : 1;
  const int barriers = config.cluster > 0 ? 15 : config.persistent ? 31 : 11;
  return all_slabs * row * (kv_stages * kept + config.stages * config.tile_q) + 2 * (factors + weights) + sums +
         config.stages * 2 * config.tile_q * 4 + 8 * (4 * config.stages + barriers);
}
/// As WgmmaQueriesTiles lays it out.
std::int64_t wgmma_queries_smem_bytes(const TypedConfig& config, const attention::Settings& settings) {
  constexpr std::int64_t row = 128;
  const std::int64_t qk_slabs = slabs(settings.head_dim), v_slabs = slabs(settings.head_dim_v);
  const std::int64_t k_stages = config.dq_stages, v_stages = config.dq_stages - 1;
  return row * (config.dq_tile_q * (qk_slabs + v_slabs) + config.dq_tile_kv * (k_stages * qk_slabs + v_stages * v_slabs)) +
         8 * (2 + 2 * k_stages + 2 * v_stages) + (settings.mask_mod.empty() ? 0 : 4 * k_stages);
}

}  // namespace

std::vector<FieldInfo> config_field_infos() {
  std::vector<FieldInfo> all;
  for (std::size_t i = 0; i < enum_names<Variant>.size(); ++i) {
    TypedConfig config;
    config.variant = static_cast<Variant>(i);
    for (FieldInfo& info : described(config).field_infos())
      if (std::ranges::find(all, info.name, &FieldInfo::name) == all.end()) all.push_back(std::move(info));
  }
  return all;
}

TypedConfig TypedConfig::parse(const Config& config) {
  return parse_or_repeat<TypedConfig>(
      config, [](const Config& given) { return read_fields(parse_variant(given.fields), given.fields, described); });
}

Config TypedConfig::to_config() const {
  return written_or_repeat<TypedConfig>(*this, [](const TypedConfig& typed) { return fields_of(typed, described); });
}

bool TypedConfig::separate_adders(const Settings& settings) const noexcept {
  return adders || (roles == Roles::keys && is_ordered(settings));
}

int TypedConfig::block_threads(Pass pass, const Settings& settings) const noexcept {
  switch (variant) {
    case Variant::simt: return threads;
    case Variant::mma: return mma(pass).warps * 32;
    case Variant::wgmma:
      if (pass == Pass::queries) return separate_dq() ? 128 * (dq_tile_q / 64 + 1) : 0;
      return separate_adders(settings) ? 512 : 384;
  }
  return 0;
}

int TypedConfig::kept(Pass pass) const noexcept {
  if (variant == Variant::mma) return mma(pass).kept;
  if (variant == Variant::wgmma && pass == Pass::keys) return roles == Roles::gradients ? 64 : 128;
  if (separate_dq()) return dq_tile_q;
  return pass == Pass::keys ? tile_kv : tile_q;
}

std::int64_t TypedConfig::smem_bytes(Pass pass, const Settings& settings) const noexcept {
  const attention::Settings& forward = settings.forward;
  if (variant == Variant::mma) return mma_smem_bytes(mma(pass), forward);
  if (variant == Variant::wgmma)
    return pass == Pass::keys ? wgmma_smem_bytes(*this, settings)
           : separate_dq()    ? wgmma_queries_smem_bytes(*this, forward)
                              : 0;
  return pass == Pass::keys ? simt_smem_bytes(tile_kv, tile_q, forward) : simt_smem_bytes(tile_q, tile_kv, forward);
}

int TypedConfig::registers_needed(Pass pass, const attention::Settings& settings) const noexcept {
  const std::int64_t d = settings.head_dim, d_v = settings.head_dim_v;
  if (variant == Variant::wgmma && pass == Pass::queries)  // of a consumer
    return separate_dq() ? static_cast<int>(24 + d / 2 + dq_tile_kv) : 0;
  if (variant == Variant::wgmma) {  // of a multiplier; with more than 208, ptxas serializes the products
    const std::int64_t gradients = roles == Roles::keys ? d + d_v : std::max(d, d_v);
    // Weights that wait next to those of the previous tile's dS.
    const int waiting = settings.softcap != 0 || !settings.score_mod.empty() || settings.dropout > 0 ? tile_q / 4 : 0;
    return static_cast<int>(24 + gradients / 2 + tile_q / 2 + tile_q / 4) + (settings.alibi ? 8 : 0) +
           (ahead && roles == Roles::keys ? 4 + waiting : 0);
  }
  std::int64_t registers = 40;  // for what stands around the tiles
  if (variant == Variant::simt) {
    // Gradients, both products, and what they are computed from.
    const std::int64_t down = threads / 16, rows = kept(pass) / down;
    const std::int64_t columns = (pass == Pass::keys ? tile_q : tile_kv) / 16;
    const auto gradient = [&](std::int64_t width) { return rows * ((width / 4 + 15) / 16) * 4; };
    registers += gradient(d) + (pass == Pass::keys ? gradient(d_v) : 0) + 2 * rows * columns + 4 * (rows + columns);
  } else {
    const MmaPass& config = mma(pass);
    const std::int64_t blocks = config.kept / (16 * (config.split ? config.warps / 2 : config.warps));
    const std::int64_t gradients = pass == Pass::queries ? d / 2 : config.split ? std::max(d, d_v) / 2 : (d + d_v) / 2;
    registers += blocks * (gradients + config.streamed);
  }
  return static_cast<int>(registers);
}

namespace {

std::string why_simt_invalid(const TypedConfig& config, const DeviceInfo& device) {
  if (config.threads > device.max_threads_per_block)
    return "threads is " + std::to_string(config.threads) + "; the device allows " +
           std::to_string(device.max_threads_per_block);
  const int down = config.threads / 16;
  if (config.tile_q % down != 0 || config.tile_kv % down != 0)
    return "threads / 16 = " + std::to_string(down) + " threads share the rows of a tile; tile_q and tile_kv must be " +
           "multiples, and are " + std::to_string(config.tile_q) + " and " + std::to_string(config.tile_kv);
  return {};
}

std::string why_mma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (device.arch.number() < 80) return "mma takes sm_80 or later; the device is " + tunesmith::name(device.arch);
  if (settings.forward.dtype == DType::f32) return "mma multiplies f16 and bf16; dtype is f32";
  for (const Pass pass : {Pass::keys, Pass::queries}) {
    const MmaPass& mma = config.mma(pass);
    const int owners = mma.split ? mma.warps / 2 : mma.warps;
    if (mma.split && mma.warps % 2 != 0) return "kv_split pairs warps; kv_warps is " + std::to_string(mma.warps);
    if (mma.kept != 16 * owners && mma.kept != 32 * owners)
      return std::string(pass == Pass::keys ? "kv_kept" : "q_kept") + " is " + std::to_string(mma.kept) + " with " +
             std::to_string(owners) + " warps or pairs of them; each has 16 or 32 rows";
  }
  return {};
}

std::string why_head_split_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::string start = "head_split is " + text(config.head_split) + "; ";
  if (config.roles != Roles::keys || config.cluster > 0) return start + "it is for roles=keys and cluster=0";
  if (config.is_ordered(settings)) return start + "with deterministic=1 a block has all query heads of its key head";
  if (forward.group() < config.head_split)
    return start + "allowed: at most " + text(forward.group()) + ", the query heads of a key head";
  if (config.head_split > device.max_cluster_blocks)
    return start + "the device's clusters have at most " + text(device.max_cluster_blocks) + " blocks";
  const std::int64_t sums = 4 * config.kept(Pass::keys) * std::max(forward.head_dim, forward.head_dim_v);
  const std::int64_t tiles = (slabs(forward.head_dim) + slabs(forward.head_dim_v)) * config.stages * config.tile_q * 128;
  if (sums > tiles)
    return start + "dk or dv of a block takes " + text(sums) + " bytes in the place of Q and dO, which have " + text(tiles);
  return {};
}

std::string why_kernels_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const TypedConfig defaults;
  if (config.kernels == 1) {
    if (config.dq_tile_q != defaults.dq_tile_q || config.dq_tile_kv != defaults.dq_tile_kv ||
        config.dq_stages != defaults.dq_stages)
      return "dq_tile_q, dq_tile_kv and dq_stages are for kernels=2; kernels is 1";
    return {};
  }
  if (config.cluster > 0 || config.adders) return "kernels is 2; it is for cluster=0 and adders=0, which concern sums of dq";
  if (const int registers = config.registers_needed(Pass::queries, settings.forward); registers > 240)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread for dq; there are 240";
  if (const std::int64_t bytes = config.smem_bytes(Pass::queries, settings); bytes > device.smem_bytes_per_block)
    return "tiles of these sizes take " + std::to_string(bytes) + " bytes of shared memory for dq; a block has " +
           std::to_string(device.smem_bytes_per_block);
  return {};
}

std::string why_wgmma_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  if (tunesmith::name(device.arch) != "sm_90a") return "wgmma is sm_90a's; the device is " + tunesmith::name(device.arch);
  if (forward.dtype == DType::f32) return "wgmma multiplies f16 and bf16; dtype is f32";
  if (forward.head_dim % 16 != 0 || forward.head_dim_v % 16 != 0 || forward.head_dim > 256 || forward.head_dim_v > 256)
    return "wgmma takes head dimensions that are multiples of 16 up to 256";
  if (config.roles == Roles::gradients && (config.tile_q != 64 || !config.ahead))
    return "roles=gradients has tile_q=64 and ahead=1";
  if (config.roles == Roles::gradients && settings.dslopes && forward.dropout > 0 &&
      (forward.softcap != 0 || !forward.score_mod.empty()))
    return "roles=gradients has no dslopes with dropout and a softcap or a score_mod: both warpgroups would have a share";
  if (config.cluster > 0) {
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    if (config.roles == Roles::gradients) return "cluster is " + text(config.cluster) + "; roles=gradients has cluster=0";
    if (config.cluster * config.kept(Pass::keys) < forward.seq_kv)
      return "cluster is " + text(config.cluster) + ", which holds " + text(config.cluster * config.kept(Pass::keys)) +
             " keys; seq_kv is " + text(forward.seq_kv);
    if (config.cluster == 8 && forward.head_dim % 32 != 0)
      return "cluster is 8 and head_dim is " + text(forward.head_dim) + "; 8 blocks share multiples of 32 columns";
    if (config.cluster > device.max_cluster_blocks)
      return "cluster is " + text(config.cluster) + "; the device's clusters have at most " +
             text(device.max_cluster_blocks) + " blocks";
  }
  if (config.head_split > 0)
    if (std::string reason = why_head_split_invalid(config, settings, device); !reason.empty()) return reason;
  if (config.adders && (config.roles == Roles::gradients || config.cluster > 0))
    return "adders is 1; it is for roles=keys and cluster=0";
  if (std::string reason = why_kernels_invalid(config, settings, device); !reason.empty()) return reason;
  if (config.adders && settings.deterministic)
    return "adders is 1; with deterministic=1 all kernels of roles=keys have the fourth warpgroup, and adders is 0";
  if (config.persistent &&
      (!config.separate_adders(settings) || config.head_split > 0 || config.ahead || config.kernels == 2))
    return "persistent is 1; it is for a fourth warpgroup (adders=1, or deterministic=1 and roles=keys), head_split=0, "
           "ahead=0 and kernels=1";
  if (settings.rows() == 0 || forward.positions(Side::k) == 0) return "TMA has no empty arrays";
  for (const Side side : {Side::q, Side::k, Side::v}) {
    if (forward.vector(side) < 8)
      return std::string("TMA needs rows that are aligned to 16 bytes; those of ") +
             attention::side_names[static_cast<std::size_t>(side)] + " are not";
    if (forward.broadcasts(side))
      return std::string("TMA has no strides of 0; ") + attention::side_names[static_cast<std::size_t>(side)] + " has one";
  }
  for (const GradientTensor& gradient : gradient_tensors) {
    const Tensor& tensor = settings.*gradient.tensor;
    if (forward.vector(gradient.side, tensor) < 8)
      return std::string("TMA needs rows that are aligned to 16 bytes; those of ") + gradient.name + " are not";
    if ((forward.positions(gradient.side) > 1 && tensor.seq_stride == 0) ||
        (forward.heads_of(gradient.side) > 1 && tensor.head_stride == 0) ||
        (!forward.varlen && forward.batch > 1 && tensor.batch_stride == 0))
      return std::string("TMA has no strides of 0; ") + gradient.name + " has one";
  }
  // Measured with ptxas: S of the next 128 queries leaves no registers for more. In blocks of more than 384 threads ptxas
  // serializes products that it does not serialize otherwise.
  const bool masked = !forward.mask_mod.empty();
  const bool crowded =
      config.ahead && config.roles == Roles::keys &&
      (config.separate_adders(settings) || (config.tile_q == 128 && (settings.dslopes || forward.varlen || masked)));
  const bool random = config.tile_q == 128 && forward.dropout > 0;  // bits of 64 pairs of a thread
  // As WgmmaBackwardRegisters.
  const int most = !config.separate_dq() ? 208 : masked || config.roles == Roles::gradients ? 216 : 240;
  if (const int registers = config.registers_needed(Pass::keys, forward) + (crowded ? 24 : 0) + (random ? 32 : 0);
      registers > most)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
           std::to_string(most);
  if (const std::int64_t bytes = config.smem_bytes(Pass::keys, settings); bytes > device.smem_bytes_per_block)
    return "tiles of these sizes take " + std::to_string(bytes) + " bytes of shared memory; a block has " +
           std::to_string(device.smem_bytes_per_block);
  return {};
}

}  // namespace

std::int64_t sums_columns(const Settings& settings) { return slabs(settings.forward.head_dim) * 64; }

std::int32_t heads_per_section(std::int64_t kv_tiles, const Settings& settings, const DeviceInfo& device, bool sums) {
  const attention::Settings& forward = settings.forward;
  const auto over = [](std::int64_t number, std::int64_t by) { return (number + by - 1) / by; };
  const std::int64_t row =
      (forward.head_dim + forward.head_dim_v) * size_of(forward.dtype) + (sums ? 4 * sums_columns(settings) : 0);
  const std::int64_t fitting = (std::int64_t{32} << 20) / std::max<std::int64_t>(row * forward.seq_q * forward.group(), 1);
  const std::int64_t least = over(std::int64_t{3} * device.sm_count, 2 * std::max<std::int64_t>(kv_tiles, 1));
  const std::int64_t all = std::max<std::int64_t>(forward.batch * forward.kv_heads, 1);
  const std::int64_t sections = std::max<std::int64_t>(all / std::max({fitting, least, std::int64_t{1}}), 1);
  return static_cast<std::int32_t>(over(all, sections));
}

std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (config.variant == Variant::wgmma) return why_wgmma_invalid(config, settings, device);
  if (std::string reason =
          config.variant == Variant::simt ? why_simt_invalid(config, device) : why_mma_invalid(config, settings, device);
      !reason.empty())
    return reason;
  for (const Pass pass : {Pass::keys, Pass::queries}) {
    const int limit = std::min(255, device.registers_per_sm / config.block_threads(pass, settings) / 8 * 8);
    if (const int registers = config.registers_needed(pass, settings.forward); registers > limit)
      return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
             std::to_string(limit);
    if (const std::int64_t bytes = config.smem_bytes(pass, settings); bytes > device.smem_bytes_per_block)
      return "tiles of these sizes take " + std::to_string(bytes) + " bytes of shared memory; a block has " +
             std::to_string(device.smem_bytes_per_block);
  }
  if (settings.daux.empty()) return {};
  if (const std::int64_t bytes = aux_smem_bytes(config, settings); bytes > device.smem_bytes_per_block)
    return "tiles of these sizes take " + std::to_string(bytes) + " bytes of shared memory for daux; a block has " +
           std::to_string(device.smem_bytes_per_block);
  return {};
}

}  // namespace tunesmith::attention_backward
