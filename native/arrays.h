// Checks of arrays that come from Python: type, shape and layout, once, at the boundary.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace native {

namespace nb = nanobind;

using Array = nb::ndarray<nb::device::cpu>;
using Input = nb::ndarray<nb::ro, nb::device::cpu>;
using Shape = std::vector<int64_t>;

template <class T>
const char* dtype_name() {
  if (std::is_same_v<T, bool>) return "bool";
  if (std::is_floating_point_v<T>) return sizeof(T) == 4 ? "float32" : "float64";
  if (std::is_unsigned_v<T>) return sizeof(T) == 8 ? "uint64" : "uint8";
  return sizeof(T) == 1 ? "int8" : sizeof(T) == 2 ? "int16" : sizeof(T) == 4 ? "int32" : "int64";
}

inline std::string describe(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  const std::string bits = std::to_string(type.bits);
  if (code == nb::dlpack::dtype_code::Bool) return "bool";
  if (code == nb::dlpack::dtype_code::Float) return "float" + bits;
  return (code == nb::dlpack::dtype_code::UInt ? "uint" : "int") + bits;
}

inline std::string describe(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

// Pointer to an array's data. Throws unless the array is contiguous and has the type and shape; the error names them.
template <class T, class A>
auto* data_of(const A& array, const char* name, const Shape& shape) {
  Shape got;
  bool contiguous = true;
  int64_t stride = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    got.insert(got.begin(), static_cast<int64_t>(array.shape(i)));
    contiguous = contiguous && (array.shape(i) == 1 || array.stride(i) == stride);
    stride *= static_cast<int64_t>(array.shape(i));
  }
  contiguous = contiguous || array.size() == 0;
  if (array.dtype() != nb::dtype<T>() || got != shape || !contiguous) {
    throw std::invalid_argument(std::string(name) + ": expected a contiguous " + dtype_name<T>() + " array of shape " +
                                describe(shape) + ", got " + (contiguous ? "" : "non-contiguous ") +
                                describe(array.dtype()) + " of shape " + describe(got));
  }
  using Pointer = std::conditional_t<std::is_same_v<A, Input>, const T*, T*>;
  return static_cast<Pointer>(array.data());
}

}  // namespace native
