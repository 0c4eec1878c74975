#include "jit/host/shared_memory.h"

#include <cstdlib>
#include <cstring>

#include "jit/host/sanitizer_fiber.h"
#include "tunesmith/error.h"

namespace tunesmith::host {
namespace {

constexpr std::size_t gap_bytes = 64;          // lets AddressSanitizer detect an overrun from one object into the next
constexpr std::size_t arena_bytes = 96 << 10;  // max_static_bytes of objects, with room for gaps and alignment
constexpr std::size_t base_alignment = 1024;   // of static objects, and of dynamic memory larger than 48 KiB
constexpr std::size_t default_alignment = 16;  // of dynamic memory otherwise
constexpr std::size_t alignment_threshold = 48 << 10;
constexpr std::size_t guard_bytes = 4 << 10;  // after dynamic memory: all 0xFF unless a kernel writes there

}  // namespace

SharedMemory::~SharedMemory() { release(); }

void SharedMemory::release() noexcept {
  if (memory_ != nullptr) unpoison(memory_, bytes_);
  std::free(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  blocks_.clear();
}

void SharedMemory::allocate(std::size_t blocks) {
  release();
  // An alignment of exactly 16 exposes kernels that rely on more.
  const std::size_t offset = dynamic_bytes_ > alignment_threshold ? 0 : default_alignment;
  const std::size_t distance =
      (arena_bytes + offset + dynamic_bytes_ + guard_bytes + base_alignment - 1) / base_alignment * base_alignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, base_alignment, blocks * distance) != 0)
    throw Error(ErrorCode::out_of_memory, "cannot allocate ", distance, " bytes of shared memory for each of ", blocks,
                " blocks");
  memory_ = static_cast<unsigned char*>(memory);
  bytes_ = blocks * distance;
  for (std::size_t i = 0; i < blocks; ++i) {
    Block& block = blocks_.emplace_back();
    block.statics = memory_ + i * distance;
    block.dynamic_allocation = block.statics + arena_bytes;
    block.dynamic = block.dynamic_allocation + offset;
    block.dynamic_begin = offset;
    block.dynamic_end = offset + dynamic_bytes_;
    std::memset(block.dynamic_allocation + block.dynamic_end, 0xff, guard_bytes);
    poison(block.dynamic_allocation, offset);
    poison(block.dynamic_allocation + block.dynamic_end, guard_bytes);
  }
}

void SharedMemory::prepare(std::size_t blocks, std::size_t dynamic_bytes) {
  if (dynamic_bytes != dynamic_bytes_ || blocks > blocks_.size()) {
    dynamic_bytes_ = dynamic_bytes;
    allocate(blocks);
  }
  for (const Block& block : blocks_) poison(block.statics, arena_bytes);
  objects_.clear();
  static_bytes_ = static_end_ = 0;
}

void SharedMemory::poison_contents() {
  for (const Block& block : blocks_) {
    std::memset(block.dynamic, 0xff, dynamic_bytes_);
    for (const StaticObject& object : objects_) std::memset(block.statics + object.offset, 0xff, object.bytes);
  }
}

std::optional<std::size_t> SharedMemory::take_overrun() noexcept {
  std::optional<std::size_t> found;
  if constexpr (with_asan) return found;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    unsigned char* const guard = blocks_[i].dynamic_allocation + blocks_[i].dynamic_end;
    // Equal to itself moved by one byte: all bytes are equal.
    if (guard[0] == 0xff && std::memcmp(guard, guard + 1, guard_bytes - 1) == 0) continue;
    std::memset(guard, 0xff, guard_bytes);
    found = i;
  }
  return found;
}

void* SharedMemory::static_object(std::size_t block, const void* key, std::size_t bytes, std::size_t alignment) {
  for (const StaticObject& object : objects_)
    if (object.key == key) return blocks_[block].statics + object.offset;
  const std::size_t offset = (static_end_ + alignment - 1) & ~(alignment - 1);
  if (static_bytes_ + bytes > max_static_bytes || offset + bytes > arena_bytes) return nullptr;
  objects_.push_back({key, offset, bytes});
  static_bytes_ += bytes;
  static_end_ = offset + bytes + gap_bytes;
  for (const Block& each : blocks_) {
    unpoison(each.statics + offset, bytes);
    std::memset(each.statics + offset, 0xff, bytes);
  }
  return blocks_[block].statics + offset;
}

bool SharedMemory::contains(std::size_t block, const void* address, std::size_t bytes) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto inside = [&](const unsigned char* base, std::size_t size) {
    const auto first = reinterpret_cast<std::uintptr_t>(base);
    return begin >= first && bytes <= size && begin - first <= size - bytes;
  };
  return inside(blocks_[block].statics, static_end_) || inside(blocks_[block].dynamic, dynamic_bytes_);
}

void* SharedMemory::twin(void* object, std::size_t from, std::size_t to) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  const auto statics = reinterpret_cast<std::uintptr_t>(blocks_[from].statics);
  if (address >= statics && address < statics + static_end_) return blocks_[to].statics + (address - statics);
  const auto dynamic = reinterpret_cast<std::uintptr_t>(blocks_[from].dynamic);
  if (address >= dynamic && address < dynamic + dynamic_bytes_) return blocks_[to].dynamic + (address - dynamic);
  return nullptr;
}

std::size_t SharedMemory::statics_at() const noexcept {
  return (window + default_alignment + dynamic_bytes_ + base_alignment - 1) / base_alignment * base_alignment;
}

std::uint32_t SharedMemory::address(std::size_t block, const void* object) const noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(object);
  const auto dynamic = reinterpret_cast<std::uintptr_t>(blocks_[block].dynamic_allocation);
  const auto statics = reinterpret_cast<std::uintptr_t>(blocks_[block].statics);
  if (place >= dynamic && place - dynamic <= blocks_[block].dynamic_end)
    return window + static_cast<std::uint32_t>(place - dynamic);
  if (place >= statics && place - statics <= static_end_)
    return static_cast<std::uint32_t>(statics_at() + (place - statics));
  return 0;
}

unsigned char* SharedMemory::static_at(std::size_t block, std::uint32_t address, std::size_t bytes) const noexcept {
  if (address < statics_at()) return nullptr;
  unsigned char* const object = blocks_[block].statics + (address - statics_at());
  return contains(block, object, bytes) ? object : nullptr;
}

}  // namespace tunesmith::host
