#define BELIEF_BF16
#include "muzero/model/native/slot_kernel.h"

namespace slot_step {

const Kernel kernel_bf16 = {"bf16", kWidth, kPanel, kBf16, scratch, run};

}  // namespace slot_step
