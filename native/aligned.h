// AlignedVector: a vector whose storage begins at a cache line. Threads that work on parts of it whose sizes are
// multiples of a cache line then never write to the same line, which would make each wait for the other.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace native {

constexpr std::size_t kCacheLine = 64;

template <class T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}  // NOLINT: allocators convert into each other

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{kCacheLine}));
  }
  void deallocate(T* at, std::size_t) { ::operator delete(at, std::align_val_t{kCacheLine}); }

  template <class U>
  bool operator==(const AlignedAllocator<U>&) const {
    return true;
  }
  template <class U>
  bool operator!=(const AlignedAllocator<U>&) const {
    return false;
  }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace native
