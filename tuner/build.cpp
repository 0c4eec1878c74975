#include "tuner/build.h"

#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include "core/hash.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr std::array<std::pair<const char*, int KernelResources::*>, 5> resource_fields{{
    {"registers", &KernelResources::registers},
    {"static_smem_bytes", &KernelResources::static_smem_bytes},
    {"local_bytes", &KernelResources::local_bytes},
    {"spill_store_bytes", &KernelResources::spill_store_bytes},
    {"spill_load_bytes", &KernelResources::spill_load_bytes},
}};

// How long to wait for another process that compiles the same source. The slowest kernels take 3 s on a busy machine; an
// owner that dies is replaced at once, so only one that was stopped makes others wait this long, and then compile, too.
constexpr std::chrono::seconds longest_compilation{10};

Binary to_binary(BinaryRecord record) {
  Binary binary;
  binary.image = std::move(record.image);
  binary.log = std::move(record.log);
  for (const auto& [entry, resources] : record.resources) binary.resources[entry] = parse_resources(resources);
  return binary;
}

}  // namespace

std::string text(const KernelResources& resources) {
  Fields fields;
  for (const auto& [field, member] : resource_fields) fields.set(field, std::int64_t{resources.*member});
  return fields.text();
}

KernelResources parse_resources(const std::string& text) {
  KernelResources resources;
  try {
    const Fields fields = parse_fields(text, "resources");
    for (const auto& [field, member] : resource_fields) {
      const Value* value = fields.find(field);
      const auto* integer = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
      if (integer != nullptr && *integer >= 0 && *integer <= std::numeric_limits<int>::max())
        resources.*member = static_cast<int>(*integer);
    }
  } catch (const Error&) {  // a row written by something else; the binary is good all the same
  }
  return resources;
}

Built build_binary(const KernelSource& source, const Arch& arch, const Compiler& compiler, Cache& cache, Keep keep) {
  Built built;
  std::optional<WorkClaim> claim;  // until the binary is stored
  const auto take = [&](std::optional<BinaryRecord> record) {
    if (!record || record->image.empty()) return false;
    built.source_hash = record->source_hash;
    built.binary = to_binary(std::move(*record));
    built.from_cache = true;
    return true;
  };
  try {
    {
      const PhaseTimer timer(built.phases.digest_ms);
      built.fingerprint = binary_fingerprint(compiler, arch, source.key());
    }
    {
      const PhaseTimer timer(built.phases.lookup_ms);
      if (take(cache.find_binary(built.fingerprint))) return built;
      if (keep == Keep::now) {
        claim = cache.claim("binary " + built.fingerprint, longest_compilation);
        if (take(cache.find_binary(built.fingerprint))) return built;
      }
    }
    compile(source, arch, compiler, built);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_compiler) throw;
    const PhaseTimer timer(built.phases.lookup_ms);
    if (!take(cache.find_binary_of_source(source.key(), name(arch)))) throw;
    return built;
  }
  if (keep == Keep::now) {
    const PhaseTimer timer(built.phases.store_ms);
    keep_binary(source.op(), built, arch, compiler, cache);
  }
  return built;
}

void compile(const KernelSource& source, const Arch& arch, const Compiler& compiler, Built& built) {
  CompileRequest request{source.file(), {}, arch};
  {
    const PhaseTimer timer(built.phases.render_ms);
    request.source = source.render();
  }
  double total_ms = 0;
  {
    const PhaseTimer timer(total_ms);
    built.binary = compiler.compile(request);
  }
  built.binary.compile_ms = total_ms - built.binary.open_compiler_ms;
  built.phases.open_compiler_ms += built.binary.open_compiler_ms;
  built.phases.compile_ms += built.binary.compile_ms;
  built.source = std::move(request.source);
  built.source_hash = hash_hex(built.source);
  built.from_cache = false;
}

void keep_binary(const Op& op, const Built& built, const Arch& arch, const Compiler& compiler, Cache& cache) {
  if (built.from_cache) return;
  BinaryRecord record;
  record.fingerprint = built.fingerprint;
  record.source_hash = built.source_hash;
  record.options = compiler.options(arch);
  record.arch = name(arch);
  record.toolchain = compiler.identity();
  record.op = op.name();
  record.image = built.binary.image;
  record.log = built.binary.log;
  for (const auto& [entry, resources] : built.binary.resources) record.resources[entry] = text(resources);
  cache.store_binary(record, built.source);
}

std::shared_ptr<const Executable> make_executable(const ParsedProblem& problem, const Config& config, const Binary& binary,
                                                  Device& device) {
  return std::make_shared<const Executable>(device, device.load(binary), problem.launch_plan(config, device.info()));
}

}  // namespace tunesmith
