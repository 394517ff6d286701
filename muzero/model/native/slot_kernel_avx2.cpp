#include "muzero/model/native/slot_kernel.h"

namespace slot_step {

const Kernel kernel_avx2 = {"avx2", kWidth, kPanel, kBf16, scratch, run};

}  // namespace slot_step
