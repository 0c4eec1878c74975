// Shared memory of blocks that are resident together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tunesmith::host {

/// Static and dynamic shared memory per block. A static object has the same offset in every block, in the order in which any
/// block first reaches it, so that shared_of_rank() only changes the base. Every byte is 0xFF when a block starts, which is
/// a NaN in each float format.
class SharedMemory {
 public:
  static constexpr std::size_t max_static_bytes = 48 << 10;

  SharedMemory() = default;
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Allocates memory for `blocks` blocks and drops the static objects of the previous kernel. Throws Error(out_of_memory).
  void prepare(std::size_t blocks, std::size_t dynamic_bytes);
  /// Fills all memory with 0xFF before the blocks start.
  void poison_contents();
  /// Returns a block that has written to the few KiB after its dynamic memory, if any, and restores them. With
  /// AddressSanitizer, any such access ends the process at once.
  std::optional<std::size_t> take_overrun() noexcept;

  /// Returns the static object of `key`; nullptr if the kernel's static shared memory exceeds max_static_bytes.
  void* static_object(std::size_t block, const void* key, std::size_t bytes, std::size_t alignment);
  unsigned char* dynamic(std::size_t block) const noexcept { return blocks_[block].dynamic; }
  /// The memory of all blocks, with gaps between them.
  const unsigned char* begin() const noexcept { return memory_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool contains(std::size_t block, const void* address, std::size_t bytes) const noexcept;
  /// Returns the address in block `to` that corresponds to `object` in block `from`; nullptr if `object` is not in `from`.
  void* twin(void* object, std::size_t from, std::size_t to) const noexcept;

  /// 32-bit addresses of a block's shared memory, as PTX has them: dynamic memory is at `window` or 16 bytes after it, so
  /// that an address has the alignment of its object up to 1024, and static objects follow. 0 is no address.
  static constexpr std::uint32_t window = 1024;
  /// Returns the address of `object` in `block`; 0 if it is not in its shared memory.
  std::uint32_t address(std::size_t block, const void* object) const noexcept;
  /// Returns the object at `address`; nullptr if the `bytes` bytes there are not all in shared memory.
  unsigned char* at(std::size_t block, std::uint32_t address, std::size_t bytes) const noexcept {
    const Block& memory = blocks_[block];
    const std::size_t offset = std::size_t{address} - window;  // huge below the window
    if (offset < memory.dynamic_end && bytes <= memory.dynamic_end - offset && offset >= memory.dynamic_begin)
      return memory.dynamic_allocation + offset;
    return static_at(block, address, bytes);
  }

  std::size_t static_bytes() const noexcept { return static_bytes_; }

 private:
  struct Block {
    unsigned char* statics = nullptr;
    unsigned char* dynamic = nullptr;
    unsigned char* dynamic_allocation = nullptr;
    std::size_t dynamic_begin = 0, dynamic_end = 0;  // in the allocation
  };
  struct StaticObject {
    const void* key;
    std::size_t offset, bytes;
  };

  void allocate(std::size_t blocks);
  void release() noexcept;
  std::size_t statics_at() const noexcept;  // in the window
  unsigned char* static_at(std::size_t block, std::uint32_t address, std::size_t bytes) const noexcept;

  unsigned char* memory_ = nullptr;  // of all blocks
  std::size_t bytes_ = 0;
  std::vector<Block> blocks_;
  std::vector<StaticObject> objects_;
  std::size_t static_bytes_ = 0;  // of the objects themselves
  std::size_t static_end_ = 0;    // offset after the last object and its gap
  std::size_t dynamic_bytes_ = 0;
};

}  // namespace tunesmith::host
